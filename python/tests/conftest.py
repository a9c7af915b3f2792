import pathlib

import pytest
import reprise

MODEL = pathlib.Path(__file__).resolve().parents[2] / "models" / "reprise-tiny"


@pytest.fixture(scope="session")
def model_path():
    return MODEL


@pytest.fixture(scope="session")
def llm():
    with reprise.LLM(model=MODEL, max_num_seqs=16) as engine:
        yield engine


def question(text):
    return [{"role": "user", "content": text}]


@pytest.fixture
def apples():
    return question("Tom has 14 apples. He buys 23 more. How many apples does Tom have now?")
