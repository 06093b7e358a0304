"""The seccomp profile: `calls` is the table with its reasons, `compile` makes Docker's JSON, `profile` reads it."""
