"""The words that all rooms of the house share.

Frozen, slotted dataclasses and the files and messages they come from. This package imports nothing else of Argosy,
opens no file and knows no clock.
"""
