"""The programs, one module each: its help, its flags and its `main`. `bert-keras` and the files of a clone run them."""
