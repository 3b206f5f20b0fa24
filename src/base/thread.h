// Threads beside the worker.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <thread>

namespace syncopate {

// A thread that gets no signals: those are the worker's. Faults of its own
// (SIGSEGV and the like) it does get: blocked, they would end the process
// without a word.
std::thread start_without_signals(std::function<void()> body);

// Throws std::system_error where so many threads cannot be had beside those
// there are: starts and ends them, without memory to speak of.
void expect_threads(int count);

}  // namespace syncopate
