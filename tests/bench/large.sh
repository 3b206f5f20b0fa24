# shellcheck shell=bash
# shellcheck disable=SC2034  # variables of who sources it
# What is added to bert_mini.ini and deepfm.ini on a GPU. Source it.
large_bert=(--model.layers=24 --model.hidden=1024 --model.heads=16
  --run.precision=bf16 --data.batch=32)
full_windows=(--data.max_length=384 --data.stride=256 --data.context_words=4000)
large_deepfm=(--data.batch=20480 --run.precision=bf16)
# 33 million rows: with Adam's two averages and gradients 5.8 GB, and 4.4 GB of
# PyTorch, whose gradients of them are sparse.
huge_tables=(--data.field_rows=1270000 --optimizer.embedding=lazy)
