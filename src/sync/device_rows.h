// Tables in the memory of a GPU for comm/row_exchange.h: what is touched is
// found and added there, and only the rows of messages are copied to the host
// and back, or nothing if the endpoint takes device memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "comm/mirror.h"
#include "comm/row_exchange.h"
#include "ops/context.h"

namespace syncopate {

enum class RowMessages : uint8_t { kOnHost, kOnDevice };

// The tables must be final on the device before an exchange, and none of its
// streams may be captured in one. Between two exchanges comes a make_wait.
class DeviceRows final : public RowTables {
 public:
  DeviceRows(Device& device,
             std::vector<RowTable> tables,
             RowMessages messages);

  std::vector<int64_t> find(Endpoint& endpoint) override;
  Bytes message(int position, int64_t bytes) override;
  void take(Endpoint& endpoint,
            int position,
            const RowParts& parts,
            Wire wire) override;
  void add(std::span<const RowParts> by_position, Wire wire) override;
  // Through a mirror of this table.
  std::span<float> whole(Endpoint& endpoint, size_t table) override;
  void put_whole(size_t table) override;
  void make_wait(Stream& stream) override;

  // For messages and sums that the endpoint does not know of: add() comes
  // behind the event, and the blocks of a table are marked.
  void wait_for(Event& event) { event.wait_on(*stream_); }
  void mark(size_t table);

 private:
  struct Message {
    int64_t bytes = 0;
    Buffer on_device;
    HostBuffer on_host;  // if it is sent from there
  };
  struct Rows {
    std::span<uint32_t> numbers;
    Tensor values;
  };
  // Returns the rows of one table within the message of `position`.
  Rows rows_of(int position, size_t table, const RowPart& part, Wire wire);
  // Returns once the device has done what was submitted.
  void wait(Endpoint& endpoint);

  Device& device_;
  const bool sends_from_device_;
  std::unique_ptr<Stream> stream_;
  Context context_;
  std::unique_ptr<Event> reached_, added_;
  Buffer counts_;               // one per table, uint32_t
  HostBuffer counts_on_host_;   // the same
  std::vector<Buffer> places_;  // by table: of count_rows
  std::vector<Message> messages_;
  int own_ = 0;                       // position
  std::map<size_t, Mirror> mirrors_;  // of tables that travelled whole
};

}  // namespace syncopate
