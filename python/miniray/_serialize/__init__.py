"""Python objects as bytes: pickle, marshalled code, torch tensors."""
