#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

/// For tests: bulk copies to the shared memory of a thread block on the CPU, and the barriers that
/// wait for their bytes.
namespace reprise::kernels::cuda {

/// Threads that wait for each other. A thread waits until the generation changes.
struct ThreadGroup {
  int size = 0;
  int arrived = 0;
  uint64_t generation = 0;
};

/// The copies and barriers of one block. Source of the rules: PTX ISA, "mbarrier" and
/// "cp.async.bulk". Every rule that a kernel breaks aborts with a message.
class HostBulkCopies {
 public:
  /// Forgets the barriers of an earlier block.
  void clear();
  /// `place`: the barrier's offset in shared memory.
  void begin(uint32_t place, int arrivals);
  void arrive(uint32_t place, int expected_bytes);
  /// Begins a copy, whose destination then holds NaNs.
  void start(void* to, const void* from, size_t bytes, uint32_t place);
  /// Finishes one of the copies that are on their way. \pre has_copies()
  void finish_one(std::mt19937& random);
  [[nodiscard]] bool has_copies() const { return !copies_.empty(); }
  /// Its generation is the number of phases that have ended.
  [[nodiscard]] const ThreadGroup& phases(uint32_t place) const;
  /// How many phases have ended, of all barriers together.
  [[nodiscard]] uint64_t num_ended() const { return num_ended_; }
  /// A sentence for each barrier of an unfinished phase.
  [[nodiscard]] std::string describe() const;

 private:
  struct Barrier {
    ThreadGroup phases;
    int64_t missing_bytes = 0;  // negative: bytes arrived that are not expected yet
    int num_copies = 0;         // on their way
  };
  struct Copy {
    void* to;
    const void* from;
    size_t bytes;
    uint32_t place;
  };
  Barrier& at(uint32_t place);
  void end_phase_if_complete(uint32_t place, Barrier& barrier);

  std::map<uint32_t, Barrier> barriers_;
  std::vector<Copy> copies_;
  uint64_t num_ended_ = 0;
};

}  // namespace reprise::kernels::cuda
