#include "watch/connection.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace syncopate {
namespace {

sockaddr_in socket_address(Address address, uint16_t port) {
  sockaddr_in result{};
  result.sin_family = AF_INET;
  result.sin_port = htons(port);
  result.sin_addr.s_addr = address;
  return result;
}

int new_socket() {
  return ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

void send_at_once(int descriptor) {
  const int yes = 1;
  setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

bool is_later(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

}  // namespace

std::string text_of(Address address) {
  char text[INET_ADDRSTRLEN] = {};
  inet_ntop(AF_INET, &address, text, sizeof text);
  return text;
}

std::vector<Address> own_addresses() {
  const char* wanted = std::getenv("SYNCOPATE_INTERFACE");
  std::vector<Address> result;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) == 0) {
    for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
      if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET ||
          (one->ifa_flags & IFF_UP) == 0)
        continue;
      if (wanted != nullptr ? std::strcmp(wanted, one->ifa_name) != 0
                            : (one->ifa_flags & IFF_LOOPBACK) != 0)
        continue;
      sockaddr_in address{};
      std::memcpy(&address, one->ifa_addr, sizeof address);
      result.push_back(address.sin_addr.s_addr);
    }
    freeifaddrs(all);
  }
  if (wanted == nullptr) result.push_back(htonl(INADDR_LOOPBACK));
  return result;
}

int listen_anywhere(uint16_t& port) {
  const int descriptor = new_socket();
  sockaddr_in address = socket_address(htonl(INADDR_ANY), 0);
  socklen_t size = sizeof address;
  constexpr int kWaiting = 16;  // backlog; the ring has one caller
  if (descriptor < 0 ||
      ::bind(descriptor, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(descriptor, kWaiting) != 0 ||
      ::getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size) !=
          0)
    fail_errno(ExitCode::kPeerLost, "watchdog", "listen");
  port = ntohs(address.sin_port);
  return descriptor;
}

Connection::Connection(int descriptor) : descriptor_(descriptor) {
  send_at_once(descriptor_);
}

Connection::Connection(Address address, uint16_t port)
    : descriptor_(new_socket()), is_connecting_(true) {
  if (descriptor_ < 0) return;
  send_at_once(descriptor_);
  const sockaddr_in to = socket_address(address, port);
  if (::connect(descriptor_, reinterpret_cast<const sockaddr*>(&to),
                sizeof to) != 0 &&
      errno != EINPROGRESS)
    close();
}

Connection& Connection::operator=(Connection&& other) noexcept {
  if (this == &other) return *this;
  close();
  descriptor_ = std::exchange(other.descriptor_, -1);
  is_connecting_ = other.is_connecting_;
  in_ = std::move(other.in_);
  out_ = std::move(other.out_);
  return *this;
}

short Connection::events() const {
  const bool writes = is_connecting_ || !out_.empty();
  return static_cast<short>(POLLIN | (writes ? POLLOUT : 0));
}

void Connection::put(const Note& note) {
  constexpr size_t kMostWaiting = 4 << 20;
  if (is_open() && out_.size() < kMostWaiting) out_ += encode(note);
}

void Connection::exchange() {
  if (!is_open()) return;
  if (is_connecting_) {
    pollfd state{descriptor_, POLLOUT, 0};
    if (::poll(&state, 1, 0) <= 0) return;
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(descriptor_, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return close();
    is_connecting_ = false;
  }
  char buffer[1 << 14];
  constexpr size_t kMostAtOnce = 4 << 20;  // a stranger may never stop sending
  while (in_.size() < kMostAtOnce) {
    const ssize_t count = ::recv(descriptor_, buffer, sizeof buffer, 0);
    if (count > 0) {
      in_.append(buffer, static_cast<size_t>(count));
      continue;
    }
    if (count < 0 && is_later(errno)) break;
    return close();
  }
  while (!out_.empty()) {
    const ssize_t count =
        ::send(descriptor_, out_.data(), out_.size(), MSG_NOSIGNAL);
    if (count <= 0) {
      if (count < 0 && !is_later(errno)) close();
      return;
    }
    out_.erase(0, static_cast<size_t>(count));
  }
}

std::optional<Note> Connection::take() {
  bool is_broken = false;
  std::optional<Note> note = take_note(in_, is_broken);
  if (is_broken) close();
  return note;
}

void Connection::close() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
  is_connecting_ = false;
  out_.clear();
}

}  // namespace syncopate
