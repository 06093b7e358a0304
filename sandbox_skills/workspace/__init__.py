"""The files of one session: safe paths, staged skills, layout, runs and what is collected from them."""
