"""How agents get onto machines; today: several emulated nodes on this one."""
