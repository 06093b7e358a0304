"""What a route calls: one class for each subject, which knows tenants and values but no HTTP."""
