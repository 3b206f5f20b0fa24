// The emulated GPU as other test code sees it: its memory is open only inside
// an Access, and host code can take a kernel's place on a stream.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "device/device.h"

namespace syncopate::emulator {

// While one exists, code of this process may touch emulated device memory;
// without one, touching it ends the process with one line. Nests, and may be
// held by several threads at once. System calls do not open it: they are for
// copies in host memory.
class Access {
 public:
  Access();
  ~Access();
  Access(const Access&) = delete;
  Access& operator=(const Access&) = delete;
};

// Runs `work` as the next thing on an emulated stream, inside an Access; where
// the stream is being captured it is kept and runs at each Graph::launch().
// `name` appears in reports. The call that runs it, this one or a later one
// (streams.h), throws what `work` throws, and Error(kInternal) where it wrote
// into the padding around an allocation. `work` must not wait for another
// thread of this process.
void run_on(Stream& stream,
            std::function<void()> work,
            std::string name = "a library call");

// Whether work given to this stream is kept for a graph instead of run.
bool is_capturing(const Stream& stream);

// Decides in which order blocks and the threads between two barriers run, and
// where one block in flight gives way to another. The first value is
// SYNCOPATE_EMULATOR_SEED, or 1. For all threads, from their next launch.
void set_seed(uint64_t seed);

// Whether the library of matrix products refuses them all from now on, as if it
// had no algorithm. Returns whether it did before.
bool set_refusing_products(bool is_refusing);

// How many blocks of a launch are in flight: they give way to each other where
// a thread waits at a barrier or in a warp primitive, ends, or is about to do
// an atomic operation. What a thread does between two of these is never
// interrupted: two blocks that write one place without any of them between
// read and write are seen only by their order. The first value is
// SYNCOPATE_EMULATOR_BLOCKS, or 1. For all threads, from their next launch.
// Returns how many it was before.
int set_blocks_in_flight(int count);

}  // namespace syncopate::emulator
