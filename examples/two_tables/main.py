"""Demo: a typical model with two tables for Ascend servers. ``ascpipe run`` runs the program on any machine."""
import logging

import tensorflow.compat.v1 as tf
from rec_sdk_common.communication.hccl.hccl_info import get_rank_id

from mx_rec.util.initialize import init, terminate_config_initializer

from config import parse_arguments
from estimator import train_with_estimator
from losses import LossFile
from session import train_in_session


def main() -> None:
    """Train with the options of the command line."""
    cfg = parse_arguments()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    init(max_steps=cfg.declared_steps or cfg.steps,
         train_steps=cfg.declared_steps or cfg.train_interval,
         eval_steps=cfg.declared_steps or cfg.eval_steps,
         save_steps=cfg.declared_steps or cfg.saving_interval,
         use_dynamic=not cfg.static,
         use_dynamic_expansion=cfg.use_dynamic_expansion)
    train = train_with_estimator if cfg.use_estimator else train_in_session
    train(cfg, LossFile(cfg.losses if get_rank_id() == 0 else None))
    terminate_config_initializer()
    logging.info("Demo done!")


if __name__ == "__main__":
    tf.disable_v2_behavior()
    main()
