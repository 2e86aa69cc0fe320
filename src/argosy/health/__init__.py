"""What is wrong: logs, codes and traces that others collected, judged as one Incident with its evidence.

Pure: it is given bytes, text and times; it opens no file and asks no clock.
"""
