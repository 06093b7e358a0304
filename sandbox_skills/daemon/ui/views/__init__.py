"""What pages show: values of the services made into texts. Pure."""
