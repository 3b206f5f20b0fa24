#include "sync/device_rows.h"

#include <utility>

#include "ops/rows.h"

namespace syncopate {
namespace {

std::span<uint32_t> words_in(const Buffer& buffer, const RowTable& table) {
  return {buffer.as<uint32_t>(), static_cast<size_t>(num_row_places(table))};
}

}  // namespace

DeviceRows::DeviceRows(Device& device,
                       std::vector<RowTable> tables,
                       RowMessages messages)
    : RowTables(std::move(tables)),
      device_(device),
      sends_from_device_(messages == RowMessages::kOnDevice),
      stream_(device.make_stream()),
      context_(device, *stream_, 1),
      reached_(device.make_event()),
      added_(device.make_event()) {
  const int64_t bytes = std::ssize(this->tables()) * int64_t{sizeof(uint32_t)};
  counts_ = Buffer(device, bytes);
  counts_on_host_ = HostBuffer(device, bytes);
  for (const RowTable& table : this->tables())
    places_.emplace_back(device,
                         num_row_places(table) * int64_t{sizeof(uint32_t)});
}

void DeviceRows::wait(Endpoint& endpoint) {
  reached_->record(*stream_);
  endpoint.wait_for(*reached_);
}

std::vector<int64_t> DeviceRows::find(Endpoint& endpoint) {
  for (size_t t = 0; t < tables().size(); ++t)
    count_rows(context_, counts_.as<uint32_t>() + t,
               words_in(places_[t], tables()[t]), tables()[t]);
  device_.copy(counts_on_host_.as<uint32_t>(), counts_.data(), counts_.bytes(),
               *stream_);
  wait(endpoint);
  const uint32_t* counts = counts_on_host_.as<uint32_t>();
  return {counts, counts + tables().size()};
}

Bytes DeviceRows::message(int position, int64_t bytes) {
  if (std::ssize(messages_) <= position) messages_.resize(position + 1);
  Message& message = messages_[position];
  message.bytes = bytes;
  if (message.on_device.bytes() < bytes || !message.on_device.data()) {
    const int64_t room = bytes + bytes / 8;  // slack: counts vary a little
    message.on_device = Buffer(device_, room);
    if (!sends_from_device_) message.on_host = HostBuffer(device_, room);
  }
  return {sends_from_device_ ? message.on_device.data()
                             : message.on_host.as<void>(),
          bytes};
}

DeviceRows::Rows DeviceRows::rows_of(int position,
                                     size_t table,
                                     const RowPart& part,
                                     Wire wire) {
  auto* message = messages_[position].on_device.as<std::byte>();
  return {{reinterpret_cast<uint32_t*>(message + part.numbers),
           static_cast<size_t>(part.rows)},
          make_tensor(message + part.values,
                      wire == Wire::kBf16 ? DType::kBf16 : DType::kF32,
                      Shape{part.rows, tables()[table].row_elems})};
}

void DeviceRows::take(Endpoint& endpoint,
                      int position,
                      const RowParts& parts,
                      Wire wire) {
  own_ = position;
  for (size_t t = 0; t < parts.size(); ++t) {
    if (parts[t].rows == 0) continue;
    const Rows rows = rows_of(position, t, parts[t], wire);
    const RowTable& table = tables()[t];
    list_rows(context_, rows.numbers, words_in(places_[t], table), table);
    take_rows(context_, rows.values, table, rows.numbers);
  }
  const Message& message = messages_[position];
  if (!sends_from_device_)
    device_.copy(message.on_host.as<void>(), message.on_device.data(),
                 message.bytes, *stream_);
  wait(endpoint);
}

void DeviceRows::add(std::span<const RowParts> by_position, Wire wire) {
  for (int p = 0; p < std::ssize(by_position); ++p) {
    const Message& message = messages_[p];
    if (!sends_from_device_ && p != own_)
      device_.copy(message.on_device.data(), message.on_host.as<void>(),
                   message.bytes, *stream_);
    for (size_t t = 0; t < tables().size(); ++t) {
      const RowPart& part = by_position[p][t];
      if (part.rows == 0) continue;
      const Rows rows = rows_of(p, t, part, wire);
      add_rows(context_, tables()[t], rows.numbers, rows.values);
    }
  }
  added_->record(*stream_);
}

std::span<float> DeviceRows::whole(Endpoint& endpoint, size_t table) {
  const std::span<float> values = tables()[table].values;
  Mirror& mirror = mirrors_.try_emplace(table, device_, values).first->second;
  mirror.pull(endpoint, 0, std::ssize(values), *reached_);
  return mirror.host(0, std::ssize(values));
}

void DeviceRows::put_whole(size_t table) {
  mirrors_.at(table).push(0, std::ssize(tables()[table].values));
  mark(table);
}

void DeviceRows::mark(size_t table) {
  mark_rows(context_, tables()[table]);
  added_->record(*stream_);
}

void DeviceRows::make_wait(Stream& stream) {
  added_->wait_on(stream);
  for (auto& [table, mirror] : mirrors_) mirror.make_wait(stream);
}

}  // namespace syncopate
