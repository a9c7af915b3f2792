#include "tests/support/fake_cuda/host_bulk_copies_fixture.h"

#include <fmt/format.h>

#include <cstring>

#include "reprise/base/assert.h"

namespace reprise::kernels::cuda {

void HostBulkCopies::clear() {
  REPRISE_ASSERT(copies_.empty(), "{} bulk copies outlive their block", copies_.size());
  barriers_.clear();
  num_ended_ = 0;
}

void HostBulkCopies::begin(uint32_t place, int arrivals) {
  REPRISE_ASSERT(place % 8 == 0 && arrivals > 0, "a barrier at {} of {} arrivals", place, arrivals);
  const bool is_new = barriers_.try_emplace(place, Barrier{.phases = {.size = arrivals}}).second;
  REPRISE_ASSERT(is_new, "the barrier at {} begins twice", place);
}

void HostBulkCopies::arrive(uint32_t place, int expected_bytes) {
  Barrier& barrier = at(place);
  REPRISE_ASSERT(expected_bytes >= 0 && expected_bytes < 1 << 20,
                 "a phase of the barrier at {} expects {} bytes",
                 place,
                 expected_bytes);
  REPRISE_ASSERT(barrier.phases.arrived < barrier.phases.size,
                 "more than {} arrivals in a phase of the barrier at {}",
                 barrier.phases.size,
                 place);
  barrier.missing_bytes += expected_bytes;
  ++barrier.phases.arrived;
  end_phase_if_complete(place, barrier);
}

void HostBulkCopies::start(void* to, const void* from, size_t bytes, uint32_t place) {
  const auto is_aligned = [](const void* address) {
    return reinterpret_cast<uintptr_t>(address) % 16 == 0;
  };
  REPRISE_ASSERT(bytes > 0 && bytes % 16 == 0 && is_aligned(to) && is_aligned(from),
                 "a bulk copy of {} bytes: places and sizes are multiples of 16",
                 bytes);
  for (const Copy& copy : copies_) {
    const auto* begin = static_cast<const char*>(copy.to);
    REPRISE_ASSERT(static_cast<const char*>(to) + bytes <= begin || begin + copy.bytes <= to,
                   "two bulk copies to the same bytes are on their way");
  }
  ++at(place).num_copies;
  std::memset(to, 0xFF, bytes);
  copies_.push_back({to, from, bytes, place});
}

void HostBulkCopies::finish_one(std::mt19937& random) {
  const auto chosen = copies_.begin() + static_cast<ptrdiff_t>(random() % copies_.size());
  const Copy copy = *chosen;
  copies_.erase(chosen);
  std::memcpy(copy.to, copy.from, copy.bytes);
  Barrier& barrier = at(copy.place);
  barrier.missing_bytes -= static_cast<int64_t>(copy.bytes);
  --barrier.num_copies;
  end_phase_if_complete(copy.place, barrier);
}

const ThreadGroup& HostBulkCopies::phases(uint32_t place) const {
  const auto found = barriers_.find(place);
  REPRISE_ASSERT(found != barriers_.end(), "no barrier begins at {}", place);
  return found->second.phases;
}

std::string HostBulkCopies::describe() const {
  std::string text;
  for (const auto& [place, barrier] : barriers_) {
    text += fmt::format("; barrier at {}: phase {}, {} of {} arrivals, {} bytes missing",
                        place,
                        barrier.phases.generation,
                        barrier.phases.arrived,
                        barrier.phases.size,
                        barrier.missing_bytes);
  }
  return text;
}

HostBulkCopies::Barrier& HostBulkCopies::at(uint32_t place) {
  const auto found = barriers_.find(place);
  REPRISE_ASSERT(found != barriers_.end(), "no barrier begins at {}", place);
  return found->second;
}

void HostBulkCopies::end_phase_if_complete(uint32_t place, Barrier& barrier) {
  if (barrier.phases.arrived < barrier.phases.size || barrier.missing_bytes != 0) return;
  // Copies that this phase does not expect would arrive in a later one.
  REPRISE_ASSERT(barrier.num_copies == 0,
                 "phase {} of the barrier at {} ends without {} of its copies: it expected too few "
                 "bytes",
                 barrier.phases.generation,
                 place,
                 barrier.num_copies);
  barrier.phases.arrived = 0;
  ++barrier.phases.generation;
  ++num_ended_;
}

}  // namespace reprise::kernels::cuda
