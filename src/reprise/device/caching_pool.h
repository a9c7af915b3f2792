#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "reprise/device/memory_pool.h"

namespace reprise::device {

/// The source of a pool's segments: raw device memory, which may be acquired during a capture.
class MemorySource {
 public:
  virtual ~MemorySource() = default;
  /// Whether each result of acquire() begins where the previous one ended.
  [[nodiscard]] virtual bool is_contiguous() const noexcept { return false; }
  /// At least `bytes` bytes, aligned to at least 4096. \throws OutOfMemory
  [[nodiscard]] virtual BufferView acquire(size_t bytes) = 0;
  virtual void give_back(BufferView memory) noexcept = 0;
};

/// A MemoryPool that splits large segments into blocks and keeps the segments until it is
/// destroyed. Where segments lie one after the other, a block may extend over several of them.
///
/// Best fit with splitting and coalescing: a released large block serves several smaller requests,
/// so when the largest key is captured first, every smaller key fits into the same memory. The
/// choice depends only on the history of calls, never on the clock or on addresses of host objects:
/// the same calls from the same state give the same addresses.
///
/// Block objects are recycled and all lists are intrusive: once the segments are large enough,
/// neither allocate nor release uses the host's allocator. Not thread-safe, see MemoryPool.
class CachingPool final : public MemoryPool {
 public:
  /// `source` must outlive the pool.
  explicit CachingPool(MemorySource& source);
  explicit CachingPool(std::unique_ptr<MemorySource> source);
  ~CachingPool() override;

  [[nodiscard]] PoolBlock* allocate(size_t bytes) override;
  void release(PoolBlock* block) noexcept override;
  [[nodiscard]] size_t reserved_bytes() const noexcept override { return reserved_bytes_; }
  [[nodiscard]] size_t live_bytes() const noexcept override { return live_bytes_; }
  [[nodiscard]] size_t peak_live_bytes() const noexcept override { return peak_live_bytes_; }
  [[nodiscard]] std::vector<BufferView> free_ranges() const override;

 private:
  // A part, in use or free, of a stretch of segments that lie one after the other. The chunks of a
  // stretch, in address order, cover it completely.
  struct Chunk : PoolBlock {
    Chunk* before = nullptr;  // neighbours in the stretch
    Chunk* after = nullptr;
    Chunk* previous_free = nullptr;  // neighbours in the bin; next_free also links unused objects
    Chunk* next_free = nullptr;
    bool is_free = false;
  };

  // Free chunks are binned by size, four bins for each power of two of 256-byte units. Each bin is
  // sorted by size, then address.
  static constexpr size_t kNumBins = size_t{64} * 4;

  static size_t bin_of(size_t bytes) noexcept;
  Chunk* find_fit(size_t bytes) const noexcept;
  Chunk* grow(size_t bytes);
  Chunk* last_chunk() const noexcept;
  void split(Chunk* chunk, size_t bytes);
  void absorb_next(Chunk* chunk) noexcept;
  void insert_free(Chunk* chunk) noexcept;
  void remove_free(Chunk* chunk) noexcept;
  Chunk* take_unused();
  void put_unused(Chunk* chunk) noexcept;

  std::unique_ptr<MemorySource> own_source_;
  MemorySource* source_;  // owned by this pool, or by the device
  std::vector<BufferView> segments_;
  std::vector<Chunk*> first_chunks_;  // the first chunk of each stretch
  std::vector<std::unique_ptr<Chunk[]>> slabs_;
  Chunk* unused_ = nullptr;
  std::array<Chunk*, kNumBins> bins_{};
  std::array<uint64_t, kNumBins / 64> occupied_{};  // bit = the bin has a chunk
  size_t reserved_bytes_ = 0;
  size_t live_bytes_ = 0;
  size_t peak_live_bytes_ = 0;
};

}  // namespace reprise::device
