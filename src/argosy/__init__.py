"""Argosy trains one model on every chip you own: any vendor, any building, through any fault."""

__version__ = "0.1.0"
