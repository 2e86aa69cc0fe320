"""What a plan is told by: its choices and what each is worth, limits, fronts of prices, power and the job's course.

Must not change a plan.
"""
