#include "base/thread.h"

#include <pthread.h>
#include <signal.h>

#include <chrono>
#include <mutex>
#include <system_error>
#include <utility>
#include <vector>

namespace syncopate {
namespace {

// Allocates nothing: an allocation would reserve a per-thread malloc arena.
void* pass(void* gate) {
  const std::lock_guard through(*static_cast<std::mutex*>(gate));
  return nullptr;
}

}  // namespace

std::thread start_without_signals(std::function<void()> body) {
  sigset_t blocked;
  sigfillset(&blocked);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL})
    sigdelset(&blocked, fault);
  struct Mask {
    sigset_t before;
    ~Mask() { pthread_sigmask(SIG_SETMASK, &before, nullptr); }
  } mask;
  pthread_sigmask(SIG_SETMASK, &blocked, &mask.before);
  return std::thread(std::move(body));
}

void expect_threads(int count) {
  constexpr size_t kStackBytes = 256 << 10;
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, kStackBytes);
  std::vector<pthread_t> tried;
  std::mutex gate;
  int error = 0;
  {
    const std::lock_guard closed(gate);
    for (int i = 0; i < count && error == 0; ++i) {
      pthread_t thread;
      error = pthread_create(&thread, &small, &pass, &gate);
      if (error == 0) tried.push_back(thread);
    }
  }
  for (const pthread_t thread : tried) pthread_join(thread, nullptr);
  pthread_attr_destroy(&small);
  if (error != 0) throw std::system_error(error, std::generic_category());
  // Threads that have ended still count for some microseconds.
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
}

}  // namespace syncopate
