"""What PyTorch says when an operand of a call is on another device: a table, taken case by case on a GPU or on
simulated devices, and compared with another one. `python -m locus.ground_truth --help` shows how.

Importing this package imports no PyTorch: the cases run in processes of their own, because one of them may poison a
CUDA context or end its process.
"""
