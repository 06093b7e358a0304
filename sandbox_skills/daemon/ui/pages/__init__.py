"""The pages: each asks a service and renders a view."""
