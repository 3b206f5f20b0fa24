#!/usr/bin/env bash
# bert.ini and deepfm.ini: the smallest runs of both networks that have all of
# their parts, on made data. Source it behind lib.sh.
cat >bert.ini <<'INI'
[run]
steps = 7
threads = 1
log_every = 2
[model]
family = bert
layers = 2
hidden = 24
heads = 3
intermediate = 40
positions = 64
[data]
kind = synthetic_squad
samples = 60
test_samples = 12
batch = 2
max_length = 40
stride = 16
max_question = 12
context_words = 20
[optimizer]
kind = adamw
lr = 1e-3
weight_decay = 0.01
decay_bias = no
clip_norm = 1
[schedule]
kind = polynomial
[eval]
every = 4 steps
batch = 16
[checkpoint]
every = 4 steps
INI
cat >deepfm.ini <<'INI'
[run]
steps = 7
threads = 1
log_every = 2
[model]
family = deepfm
embedding = 5
mlp = 12, 8
[data]
kind = synthetic_criteo
samples = 400
test_samples = 100
batch = 12
field_rows = 9
[optimizer]
kind = adam
lr = 1e-3
weight_decay = 1e-5
[eval]
every = 4 steps
batch = 50
[checkpoint]
every = 4 steps
INI
