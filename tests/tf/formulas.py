"""Formulas of the optimizers, in numpy: what ``tfops/src/core/row_updates.cc`` must compute, bit for bit.

Each function changes float32 arrays of one shape in place: the rows, then their optimizer slots.
"""
import numpy as np

ONE, TWO = np.float32(1), np.float32(2)


def gradient_descent(states, grad, rate, weight_decay):
    (w,) = states
    w -= (grad + weight_decay * w if weight_decay else grad) * rate


def adagrad(states, grad, rate):
    w, accumulator = states
    accumulator += grad * grad
    w -= rate * grad * (ONE / np.sqrt(accumulator))


def adagrad_by_address(states, grad, rate):
    w, accumulator = states
    accumulator += grad * grad
    w -= rate * grad / np.sqrt(accumulator + np.float32(1e-7))


def lazy_adam(states, grad, rate, beta1, beta2, epsilon, beta1_power, beta2_power):
    w, m, v = states
    rate = rate * np.sqrt(ONE - beta2_power) / (ONE - beta1_power)
    m[:] = beta1 * m + (ONE - beta1) * grad
    v[:] = beta2 * v + (ONE - beta2) * (grad * grad)
    w -= rate * m / (np.sqrt(v) + epsilon)


def ftrl(states, grad, rate, l1, l2, l2_shrinkage, power):
    w, accum, linear = states
    root = np.sqrt if power == -0.5 else lambda values: np.power(values, -power)
    shrunk = grad + TWO * l2_shrinkage * w if l2_shrinkage else grad
    before = root(accum)
    accum += grad * grad
    after = root(accum)
    linear += shrunk - (after - before) / rate * w
    w[:] = (np.maximum(np.minimum(linear, l1), -l1) - linear) / (after / rate + TWO * l2)
