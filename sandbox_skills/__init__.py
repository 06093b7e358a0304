"""Run Agent Skills written by strangers in a hardened, network-disabled container."""
