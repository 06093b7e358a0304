"""The multi-tenant daemon, `sandbox-skills serve`: `truth` is the database, `working` runs, `api` answers."""
