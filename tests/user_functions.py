"""Functions that tests give to pipelines; in a module, so that other processes find them."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time

import numpy as np

from zephon.types import SampleBatch


def keep(document):
    return document


class DropEvery:
    """Leaves out documents whose first token is a multiple of a number."""

    def __init__(self, number):
        self.number = number

    def __call__(self, document):
        if "input_ids" in document:  # of text, which all begins with the same token
            return None if len(document["input_ids"]) % 3 == 0 else document
        tokens = document["tokens"]
        return None if len(tokens) and tokens[0] % self.number == 0 else document


class Cut:
    """Makes documents of at most so many tokens."""

    def __init__(self, most):
        self.most = most

    def __call__(self, document):
        name = "input_ids" if "input_ids" in document else "tokens"
        tokens = document[name]
        if len(tokens) <= self.most:
            return document
        return ({name: tokens[at : at + self.most]} for at in range(0, len(tokens), self.most))


def add_noise(document, key):
    name = "input_ids" if "input_ids" in document else "tokens"
    return {name: np.append(document[name], key % 1000)}


def backwards(batch):
    return SampleBatch(batch.records[::-1])


def no_documents():
    return []


def hold_one(held, records):
    """Let everything out one document later."""
    return records, held


def what_is_held(held):
    return held


def fail_on_seven(document):
    if document["tokens"][0] == 7000:
        raise ValueError("seven is not allowed")
    return document


class UnpicklableError(Exception):
    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


def fail_unpicklably(document):
    raise UnpicklableError("this", "that")


def leave(document):
    if document["tokens"][0] == 7000:
        sys.exit("enough")
    return document


def crash(document):
    if document["tokens"][0] == 7000:
        ctypes.string_at(0)
    return document


def be_killed(document):
    if document["tokens"][0] == 7000:
        os.kill(os.getpid(), signal.SIGKILL)
    return document


def sleep_long(document):
    time.sleep(600)
    return document


class Locked:
    """Holds what cannot be pickled."""

    def __init__(self):
        self.lock = threading.Lock()

    def __call__(self, document):
        return document


def with_process_id(document):
    return {"tokens": np.array([os.getpid()])}


def first_then_sleep(document):
    if document["tokens"][0] >= 5000:
        time.sleep(600)
    return {"tokens": np.array([os.getpid()])}


def upper(document):
    return {**document, "text": document["text"].upper()}


def as_one_tensor(batch):
    import torch

    tensors = batch.to_training(return_labels=True)
    return torch.cat([tensors["input_ids"], tensors["labels"], tensors["positions"]])


def fail_always(document):
    raise ValueError("never")


def upper_of_text(document):
    return upper(document) if "text" in document else document
