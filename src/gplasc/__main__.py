"""``python -m gplasc`` and ``torchrun -m gplasc``."""

from gplasc.cli import main

if __name__ == "__main__":
    main()
