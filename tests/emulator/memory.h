// The emulated GPU's memory: a region of this process that host code cannot
// touch, where each allocation ends at a guard page.
//
//   guard | lead | data ............ | slack | guard | lead | data ...
//
// Data starts at a multiple of 256 and ends as close to the guard as that
// allows; lead and slack, less than a page, hold a pattern that is checked
// after each launch that came near it and when the memory is released.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace syncopate::emulator {

// Every emulated GPU has this much of the region: SYNCOPATE_EMULATED_MEMORY
// bytes of the environment, otherwise 16 GiB.
int64_t device_bytes();

// Filled with 0xFF (NaN). Throws Error(kInternal) where device `index` has no
// room. release: of null is nothing; what was found in the padding is thrown
// by the next padding check of any launch, or reported at exit of the process.
void* allocate_device_memory(int index, int64_t bytes);

// What a write beside the data had done to the padding; empty if nothing.
std::string release_device_memory(void* memory);

int64_t used_device_bytes(int index);

bool is_device_memory(const void* memory);

// Throws Error(kInternal), naming `what`, unless all of the bytes lie in one
// allocation.
void check_device_range(const void* memory,
                        int64_t bytes,
                        const std::string& what);

// Inside an Access, after the work: what was found in the padding of those
// allocations that the work came near, mended; empty if nothing.
std::string check_padding();

// Page-locked host memory, filled with 0xFF.
void* allocate_locked_memory(int64_t bytes);
void release_locked_memory(void* memory);
bool is_locked_memory(const void* memory, int64_t bytes);
int64_t used_locked_bytes();

// Ends the process (exit code 70) with "emulator: ..." on standard error at
// accesses to guards and, by host code, to device memory.
void install_fault_reports();

}  // namespace syncopate::emulator
