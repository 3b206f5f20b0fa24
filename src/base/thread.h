// Helper threads of a worker.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <thread>

namespace syncopate {

// Starts a thread that receives no asynchronous signals, which are for the
// worker. Its own faults (SIGSEGV and the like) stay unblocked: blocked, they
// would end the process silently.
std::thread start_without_signals(std::function<void()> body);

// Throws std::system_error if `count` more threads cannot be created beside the
// existing ones: starts and ends them, with negligible memory.
void expect_threads(int count);

}  // namespace syncopate
