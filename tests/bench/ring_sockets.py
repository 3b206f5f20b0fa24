#!/usr/bin/env python3
"""A ring of plain sockets between the hosts of links.sh: what its links carry
when every host sends and receives without pause, whoever sends. Started once a
host by mpiexec; each prints what it received, MB/s.

    ring_sockets.py [SECONDS]
"""
import os
import socket
import sys
import threading
import time

PORT = 7700
PIECE = 1 << 20


def receive(listener, counts, total):
    connection, _ = listener.accept()
    buffer = bytearray(PIECE)
    while True:
        size = connection.recv_into(buffer)
        if size == 0:
            return
        total[0] += size
        counts.append((time.monotonic(), total[0]))


def connect(address):
    for _ in range(200):
        try:
            return socket.create_connection((address, PORT))
        except OSError:
            time.sleep(0.05)
    sys.exit(f"{address}:{PORT}: nobody listens")


def send(connection, until):
    piece = bytes(PIECE)
    while time.monotonic() < until:
        connection.sendall(piece)
    connection.shutdown(socket.SHUT_WR)


def rate(counts, since, until):
    inside = [(t, n) for t, n in counts if since <= t <= until]
    return (inside[-1][1] - inside[0][1]) / (inside[-1][0] - inside[0][0]) / 1e6


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 5
    rank, size = int(os.environ["PMI_RANK"]), int(os.environ["PMI_SIZE"])
    listener = socket.create_server(("", PORT))
    counts, total = [], [0]
    receiver = threading.Thread(target=receive, args=(listener, counts, total))
    receiver.start()
    begin = time.monotonic()
    send(connect(f"10.77.0.{(rank + 1) % size + 1}"), begin + seconds + 1)
    receiver.join()
    # Of the middle, when all are at it.
    print(f"{rate(counts, begin + 0.5, begin + seconds + 0.5):.1f}")


if __name__ == "__main__":
    main()
