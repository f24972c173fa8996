"""Programs of `torch.export` and packages of AOTInductor: written, sealed, verified and run."""
