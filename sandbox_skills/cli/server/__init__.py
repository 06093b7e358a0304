"""What commands do where they go to a daemon: the same results, files and exit codes as on this machine."""
