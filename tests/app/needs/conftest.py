from tests.fakes.ollama import fake_ollama

__all__ = ["fake_ollama"]
