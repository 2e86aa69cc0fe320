"""What a job costs: transformer shapes read from an HF `config.json`, and their parameters, FLOPs and bytes.

Plain arithmetic. It knows no chip, no plan and no training framework.
"""
