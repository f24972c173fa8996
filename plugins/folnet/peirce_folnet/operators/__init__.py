"""The seven neural logic operators of FOLNet (Chen, 2023, Table 2), one file each."""
