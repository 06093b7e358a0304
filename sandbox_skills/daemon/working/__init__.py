"""What goes on while the daemon lives: runs are claimed, run and settled, whoever listens or not."""
