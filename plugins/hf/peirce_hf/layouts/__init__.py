"""How families of published transformers become specs of registered parts, a file a family."""
