"""How a job splits over a fleet: what each chip does, how long that takes, and what fits.

Pure arithmetic over classes of chips; this room starts nothing, reads no file and knows no torch.
"""
