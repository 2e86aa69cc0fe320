"""One node's hands: starts and stops its ranks and passes their reports on. Imports no torch."""
