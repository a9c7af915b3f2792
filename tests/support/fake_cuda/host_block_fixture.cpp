#include "tests/support/fake_cuda/host_block_fixture.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "reprise/base/assert.h"
#include "tests/support/fake_cuda/fiber_fixture.h"
#include "tests/support/fake_cuda/host_bulk_copies_fixture.h"

namespace reprise::kernels::cuda {

constinit thread_local HostThread host_thread;

namespace {

constexpr uint32_t kLanes = 32;
constexpr size_t kStackBytes = size_t{128} << 10;
// The number of blocks that exist at the same time if the order is random.
constexpr size_t kMostAlive = 4;
// A warp with this priority or a higher number runs only when no other warp can run.
constexpr uint32_t kStraggler = 1U << 30;

using Group = ThreadGroup;

struct LaneWords {
  std::array<std::array<uint32_t, 8>, kLanes> of;
};

struct Warp {
  Group barrier{.size = static_cast<int>(kLanes)};
  uint32_t priority = 0;         // the lowest number goes first
  bool waits_for_block = false;  // none of its lanes can run before a barrier of the block opens
  uint64_t generation = 0;       // of the block's barriers
  // Two buffers that are used in turn, so that each exchange needs only one wait.
  std::array<LaneWords, 2> words;
  std::array<HostFragments, 2> fragments;
};

struct alignas(16) Sixteen {
  std::array<char, 16> bytes;
};

struct Copy {
  void* shared;
  const void* from;  // nullptr: zeros
  size_t bytes;
};

/// Memory that earlier kernels still write, and the content that they will write.
class UnfinishedMemory {
 public:
  void set(std::vector<std::span<std::byte>> memory) { memory_ = std::move(memory); }
  [[nodiscard]] bool empty() const { return memory_.empty(); }
  /// A copy that begins before the wait for earlier kernels may read at any time.
  void require_finished(const std::byte* begin, size_t bytes) const {
    for (size_t i = 0; is_hidden_ && i < memory_.size(); ++i) {
      REPRISE_ASSERT(
          begin + bytes <= memory_[i].data() || memory_[i].data() + memory_[i].size() <= begin,
          "a bulk copy began before the wait and reads what earlier kernels write");
    }
  }
  void hide() {
    is_hidden_ = true;
    final_.clear();
    for (const std::span<std::byte> part : memory_) {
      final_.emplace_back(part.begin(), part.end());
      std::memset(part.data(), 0xFF, part.size());
    }
  }
  void reveal() {
    is_hidden_ = false;
    for (size_t i = 0; i < memory_.size(); ++i) {
      for (const std::byte byte : memory_[i]) {
        REPRISE_ASSERT(byte == std::byte{0xFF}, "a kernel wrote before it waited for earlier ones");
      }
      std::ranges::copy(final_[i], memory_[i].begin());
    }
  }

 private:
  std::vector<std::span<std::byte>> memory_;
  std::vector<std::vector<std::byte>> final_;
  bool is_hidden_ = false;
};

struct Block;

struct Fiber {
  std::unique_ptr<char[]> stack = std::make_unique_for_overwrite<char[]>(kStackBytes);
  StackPlace place;
  bool is_made = false;
  bool is_done = true;
  int thread = 0;
  int uses = 0;             // how often the warp's words were used
  bool has_waited = false;  // for earlier kernels
  Block* block = nullptr;
  Warp* warp = nullptr;
  const Group* waits_for = nullptr;
  uint64_t generation = 0;   // the generation of the group's barrier that the thread waits for
  std::vector<Copy> copies;  // committed ones, oldest first, then the others
  std::vector<size_t> commit_ends;  // of each group that is not awaited yet: its end in copies

  [[nodiscard]] bool can_run() const {
    return !is_done && (waits_for == nullptr || waits_for->generation != generation);
  }
};

struct Block {
  uint32_t index = 0;
  std::vector<std::unique_ptr<Fiber>> fibers;
  std::vector<Warp> warps;
  std::vector<Sixteen> shared;
  Group barrier;
  Group of_first;  // threads; see sync_first()
  Group earlier;
  HostBulkCopies copies;
  size_t num_left = 0;  // threads
  int num_threads = 0;

  [[nodiscard]] uint64_t barriers_opened() const {
    return barrier.generation + of_first.generation + earlier.generation + copies.num_ended();
  }

  void start(const HostLaunch& launch, uint32_t block_index) {
    index = block_index;
    const size_t threads = launch.threads_per_block;
    while (fibers.size() < threads) fibers.push_back(std::make_unique<Fiber>());
    num_threads = static_cast<int>(threads);
    warps.assign(threads / kLanes, {});
    for (size_t i = 0; i < threads; ++i) {
      Fiber& fiber = *fibers[i];
      fiber.is_done = false;
      fiber.thread = static_cast<int>(i);
      fiber.uses = 0;
      fiber.has_waited = false;
      fiber.block = this;
      fiber.warp = &warps[i / kLanes];
      fiber.waits_for = nullptr;
    }
    barrier = {.size = static_cast<int>(threads)};
    earlier = barrier;
    of_first = {};
    copies.clear();
    shared.resize(launch.shared_bytes / 16 + 1);
    std::memset(static_cast<void*>(shared.data()), 0xFF, shared.size() * 16);
    num_left = threads;
  }
};

/// One launch. One thread of the host runs all of its blocks.
class Grid {
 public:
  void run(const HostLaunch& launch, uint64_t order, const std::function<void()>& kernel) {
    REPRISE_ASSERT(launch.threads_per_block % kLanes == 0,
                   "{} threads are not whole warps",
                   launch.threads_per_block);
    launch_ = launch;
    kernel_ = &kernel;
    is_mixed_ = order != 0;
    random_.seed(static_cast<uint32_t>(order));
    const bool has_stragglers = random_() % 2 == 0;
    steps_per_change_ = std::array{1U, 8U, 64U}[random_() % 3];
    std::vector<uint32_t> waiting(launch.last_block - launch.first_block);
    std::iota(waiting.begin(), waiting.end(), launch.first_block);
    if (is_mixed_) {
      std::ranges::shuffle(waiting, random_);
    } else {
      std::ranges::reverse(waiting);  // run_on_host takes the last block first
    }
    const size_t most_alive = is_mixed_ && unfinished_.empty() ? kMostAlive : 1;
    while (blocks_.size() < most_alive) blocks_.push_back(std::make_unique<Block>());
    alive_.clear();
    while (!waiting.empty() || !alive_.empty()) {
      while (alive_.size() < most_alive && !waiting.empty()) {
        Block& block =
            **std::ranges::find(blocks_, 0U, [](const auto& one) { return one->num_left; });
        block.start(launch, waiting.back());
        unfinished_.hide();
        if (is_mixed_) {
          for (Warp& warp : block.warps) warp.priority = random_() % kStraggler;
          if (has_stragglers) block.warps[random_() % block.warps.size()].priority += kStraggler;
        }
        alive_.push_back(&block);
        waiting.pop_back();
      }
      step();
      std::erase_if(alive_, [](const Block* block) { return block->num_left == 0; });
    }
  }

  [[nodiscard]] const HostLaunch& launch() const { return launch_; }
  [[nodiscard]] Fiber& current() { return *current_; }
  [[nodiscard]] UnfinishedMemory& unfinished() { return unfinished_; }

  void wait(Group& group) {
    if (++group.arrived == group.size) {
      group.arrived = 0;
      ++group.generation;
      return;
    }
    current_->waits_for = &group;
    current_->generation = group.generation;
    go_on();
  }
  void wait_for_earlier() {
    REPRISE_ASSERT(!current_->has_waited, "a thread waits for earlier kernels once");
    current_->has_waited = true;
    Group& group = current_->block->earlier;
    if (group.arrived + 1 == group.size) unfinished_.reveal();
    wait(group);
  }
  void give_way() {
    if (!is_mixed_) return;
    current_->waits_for = nullptr;
    go_on();
  }
  /// Waits until a phase of this parity has ended.
  void wait_for_phase(const Group& phases, uint64_t parity) {
    while (phases.generation % 2 == parity) {
      current_->waits_for = &phases;
      current_->generation = phases.generation;
      go_on();
    }
  }
  /// Ends the thread that calls this function.
  void end_thread() {
    current_->is_done = true;
    Block& block = *current_->block;
    REPRISE_ASSERT(--block.num_left > 0 || !block.copies.has_copies(),
                   "block {} ends before its bulk copies are there",
                   block.index);
    go_on();
  }

 private:
  /// Runs the first warp that can run until its lanes wait; sometimes changes the warp's priority
  /// at random. Source: Burckhardt et al., A Randomized Scheduler with Probabilistic Guarantees of
  /// Finding Bugs (ASPLOS 2010). The difference: here priorities change at random times without
  /// limit.
  void step() {
    for (;;) {
      if (is_mixed_ && random_() % 4 == 0) finish_copy();
      const Turn turn = first_turn();
      if (turn.warp == nullptr && finish_copy()) continue;
      REPRISE_ASSERT(turn.warp != nullptr,
                     "{} threads of block {} wait for ever{}",
                     alive_[0]->num_left,
                     alive_[0]->index,
                     alive_[0]->copies.describe());
      if (!run_warp(turn)) continue;
      if (is_mixed_ && random_() % steps_per_change_ == 0) {
        turn.warp->priority = turn.warp->priority / kStraggler * kStraggler +
                              static_cast<uint32_t>(random_() % kStraggler);
      }
      return;
    }
  }

  /// Finishes a bulk copy of one of the blocks. Returns whether there was one.
  bool finish_copy() {
    const auto found =
        std::ranges::find_if(alive_, [](const Block* block) { return block->copies.has_copies(); });
    if (found == alive_.end()) return false;
    (*found)->copies.finish_one(random_);
    return true;
  }

  struct Turn {
    Block* block = nullptr;
    Warp* warp = nullptr;
  };

  /// Of the warps that may be able to run, the one with the lowest number.
  [[nodiscard]] Turn first_turn() const {
    Turn first;
    for (Block* block : alive_) {
      for (Warp& warp : block->warps) {
        if (warp.waits_for_block && warp.generation == block->barriers_opened()) continue;
        if (first.warp == nullptr || warp.priority < first.warp->priority) first = {block, &warp};
      }
    }
    return first;
  }

  /// Lets each lane that can run continue until it must wait. Returns whether any lane could run.
  bool run_warp(const Turn& turn) {
    lanes_ = turn.block->fibers.data() + (turn.warp - turn.block->warps.data()) * kLanes;
    flipped_ = is_mixed_ ? random_() % kLanes : 0;
    next_lane_ = 0;
    turn.warp->generation = turn.block->barriers_opened();
    Fiber* const first = next_fiber();
    turn.warp->waits_for_block = first == nullptr;
    if (first == nullptr) return false;
    enter(*first);
    scheduler_.leave_for(first->place);
    return true;
  }

  /// Returns the next lane of this turn that can run.
  Fiber* next_fiber() {
    while (next_lane_ < kLanes) {
      Fiber& fiber = *lanes_[next_lane_++ ^ flipped_];
      if (fiber.can_run()) return &fiber;
    }
    return nullptr;
  }

  void enter(Fiber& fiber) {
    current_ = &fiber;
    host_thread.index = fiber.thread;
    host_thread.num_threads = fiber.block->num_threads;
    host_thread.block = fiber.block->index;
    if (fiber.is_made) return;
    fiber.is_made = true;
    // Large allocations begin at the same place of a page. Stacks that did so too would use the
    // same few lines of the first cache level.
    const size_t unused = static_cast<size_t>(fiber.thread) % 32 * 5 * 64;
    fiber.place.begin(fiber.stack.get(), kStackBytes - unused, &Grid::run_threads);
  }

  /// Switches from the current thread to the next lane of the turn, or to the scheduler.
  void go_on() {
    Fiber& from = *current_;
    Fiber* const next = next_fiber();
    if (next != nullptr) enter(*next);
    from.place.leave_for(next != nullptr ? next->place : scheduler_);
  }

  static void run_threads();

  HostLaunch launch_;
  const std::function<void()>* kernel_ = nullptr;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::vector<Block*> alive_;
  UnfinishedMemory unfinished_;
  Fiber* current_ = nullptr;
  // the lanes of the warp whose turn it is
  const std::unique_ptr<Fiber>* lanes_ = nullptr;
  uint32_t flipped_ = 0;
  uint32_t next_lane_ = 0;
  bool is_mixed_ = false;
  uint32_t steps_per_change_ = 1;
  std::mt19937
      random_;  // neighbouring seeds give unrelated numbers, unlike those of smaller generators
  StackPlace scheduler_;
};

// Kernels ask for their thread without naming a grid, as they do on a GPU.
constinit thread_local Grid* current_grid = nullptr;
constinit thread_local uint64_t next_order = 0;
constinit thread_local std::optional<uint64_t> fixed_order;
constinit thread_local uint64_t bank_conflicts = 0;

/// Returns the grid of the calling thread. The thread's first launch makes the grid.
Grid& grid_of_thread() {
  thread_local Grid grid;
  current_grid = &grid;
  return grid;
}

// Runs the threads of the grid. One fiber runs several threads, one after the other.
void Grid::run_threads() {
  while (true) {
    (*current_grid->kernel_)();
    Fiber& fiber = *current_grid->current_;
    REPRISE_ASSERT(
        fiber.copies.empty(), "thread {} ends before its copies are there", fiber.thread);
    REPRISE_ASSERT(fiber.has_waited || !current_grid->launch_.must_wait,
                   "thread {} did not wait for earlier kernels",
                   fiber.thread);
    fiber.commit_ends.clear();
    current_grid->end_thread();
  }
}

size_t my_lane() { return static_cast<size_t>(thread_index()) % kLanes; }

LaneWords& my_words() {
  Fiber& fiber = current_grid->current();
  return fiber.warp->words[static_cast<size_t>(fiber.uses++ % 2)];
}

/// Returns the words that all lanes of the caller's warp passed.
template <size_t kCount>
const LaneWords& exchange(const std::array<uint32_t, kCount>& mine) {
  LaneWords& words = my_words();
  std::ranges::copy(mine, words.of[my_lane()].begin());
  current_grid->wait(current_grid->current().warp->barrier);
  return words;
}

/// Whether the calling lane acts for its warp, whose lanes must all pass the same words.
bool is_chosen_lane(const std::array<uint32_t, 4>& words) {
  const LaneWords& all = exchange(words);
  REPRISE_ASSERT(std::ranges::equal(words, std::span(all.of[0]).first(words.size())),
                 "the lanes of a warp start different copies");
  return my_lane() == 0;
}

/// Exchanges the row addresses of four matrices of 8 x 8 elements, one address per lane.
const LaneWords& exchange_rows(uint32_t row) {
  REPRISE_ASSERT(row % 16 == 0 && row + 16 <= current_grid->launch().shared_bytes,
                 "sixteen bytes at {} of {} bytes of shared memory",
                 row,
                 current_grid->launch().shared_bytes);
  const Words4 words = load_words(shared_memory() + row);
  const LaneWords& all =
      exchange(std::array{words.word[0], words.word[1], words.word[2], words.word[3], row});
  const size_t lane = my_lane();
  if (lane % 8 == 0) {
    uint32_t seen = 0;
    for (size_t i = lane; i < lane + 8; ++i) {
      const uint32_t banks = 1U << (all.of[i][4] / 16 % 8);
      if ((seen & banks) != 0) ++bank_conflicts;
      seen |= banks;
    }
  }
  return all;
}

void start_copy(void* shared, const void* from, bool there, size_t bytes) {
  const auto offset = static_cast<size_t>(static_cast<char*>(shared) - shared_memory());
  REPRISE_ASSERT(offset % bytes == 0 && offset + bytes <= current_grid->launch().shared_bytes,
                 "a copy of {} bytes to {} of {} bytes of shared memory",
                 bytes,
                 offset,
                 current_grid->launch().shared_bytes);
  REPRISE_ASSERT(reinterpret_cast<uintptr_t>(from) % bytes == 0,
                 "copies of {} bytes are aligned to {}",
                 bytes,
                 bytes);
  std::memset(shared, 0xFF, bytes);
  current_grid->current().copies.push_back({shared, there ? from : nullptr, bytes});
}

/// The sum of the products of four signed bytes.
int32_t products_of_bytes(uint32_t a, uint32_t b) {
  int32_t sum = 0;
  for (int shift = 0; shift < 32; shift += 8) {
    sum += static_cast<int8_t>(a >> shift) * static_cast<int8_t>(b >> shift);
  }
  return sum;
}

}  // namespace

void run_on_host(const HostLaunch& launch, const std::function<void()>& kernel) {
  host_thread.grid = launch.num_blocks;
  grid_of_thread().run(launch, fixed_order ? *fixed_order : next_order++, kernel);
}

HostOrder::HostOrder(uint64_t number) { fixed_order = number; }
HostOrder::~HostOrder() { fixed_order.reset(); }

uint64_t take_bank_conflicts() { return std::exchange(bank_conflicts, 0); }

void sync_block() { current_grid->wait(current_grid->current().block->barrier); }
void sync_first(int threads) {
  Group& group = current_grid->current().block->of_first;
  REPRISE_ASSERT(thread_index() < threads && (group.size == 0 || group.size == threads),
                 "thread {} waits for the first {} threads, and others wait for {}",
                 thread_index(),
                 threads,
                 group.size);
  group.size = threads;
  current_grid->wait(group);
}
EarlierKernelsWork::EarlierKernelsWork(std::vector<std::span<std::byte>> memory) {
  grid_of_thread().unfinished().set(std::move(memory));
}
EarlierKernelsWork::~EarlierKernelsWork() { grid_of_thread().unfinished().set({}); }

void wait_for_earlier_kernels() { current_grid->wait_for_earlier(); }
void sync_warp() { current_grid->wait(current_grid->current().warp->barrier); }
void give_way() { current_grid->give_way(); }
char* shared_memory() { return current_grid->current().block->shared.front().bytes.data(); }

uint32_t shared_address(const void* place) {
  return static_cast<uint32_t>(static_cast<const char*>(place) - shared_memory());
}

float shuffle_xor(float value, int mask) {
  const LaneWords& all = exchange(std::array{float_to_bits(value)});
  return bits_to_float(all.of[my_lane() ^ static_cast<size_t>(mask)][0]);
}

uint64_t shuffle_xor(uint64_t value, int mask) {
  const LaneWords& all =
      exchange(std::array{static_cast<uint32_t>(value), static_cast<uint32_t>(value >> 32)});
  const auto& other = all.of[my_lane() ^ static_cast<size_t>(mask)];
  return (uint64_t{other[1]} << 32) | other[0];
}

bool warp_all(bool is) {
  const LaneWords& all = exchange(std::array{is ? 1U : 0U});
  return std::ranges::all_of(all.of, [](const auto& words) { return words[0] != 0; });
}

int shuffle_from(int value, int lane) {
  const LaneWords& all = exchange(std::array{static_cast<uint32_t>(value)});
  return static_cast<int>(all.of[static_cast<size_t>(lane)][0]);
}

void copy_words_async(void* shared, const void* from, bool there) {
  start_copy(shared, from, there, 16);
}
void copy_pair_async(void* shared, const void* from, bool there) {
  start_copy(shared, from, there, 8);
}

void commit_copies() {
  Fiber& fiber = current_grid->current();
  fiber.commit_ends.push_back(fiber.copies.size());
}

void wait_for_copies_but(int pending) {
  Fiber& fiber = current_grid->current();
  std::vector<size_t>& ends = fiber.commit_ends;
  if (ends.size() <= static_cast<size_t>(pending)) return;
  const auto first_pending = ends.end() - pending;
  const size_t num_done = *(first_pending - 1);
  for (const Copy& copy : std::span(fiber.copies).first(num_done)) {
    if (copy.from != nullptr) {
      std::memcpy(copy.shared, copy.from, copy.bytes);
    } else {
      std::memset(copy.shared, 0, copy.bytes);
    }
  }
  fiber.copies.erase(fiber.copies.begin(), fiber.copies.begin() + static_cast<ptrdiff_t>(num_done));
  ends.erase(ends.begin(), first_pending);
  for (size_t& end : ends) end -= num_done;
}

void PhaseBarrier::begin(int arrivals) {
  current_grid->current().block->copies.begin(shared_address(this), arrivals);
}
void PhaseBarrier::arrive() {
  current_grid->current().block->copies.arrive(shared_address(this), 0);
}
void PhaseBarrier::arrive_as_warp(int bytes) {
  const uint32_t place = shared_address(this);
  if (!is_chosen_lane({place, static_cast<uint32_t>(bytes)})) return;
  current_grid->current().block->copies.arrive(place, bytes);
}
void PhaseBarrier::wait(int parity) {
  REPRISE_ASSERT(parity == 0 || parity == 1, "a parity of {}", parity);
  const HostBulkCopies& copies = current_grid->current().block->copies;
  current_grid->wait_for_phase(copies.phases(shared_address(this)), static_cast<uint64_t>(parity));
}

void copy_bulk(void* shared, const void* from, int bytes, PhaseBarrier& barrier) {
  const auto source = reinterpret_cast<uintptr_t>(from);
  if (!is_chosen_lane({shared_address(shared),
                       static_cast<uint32_t>(source),
                       static_cast<uint32_t>(source >> 32),
                       static_cast<uint32_t>(bytes)})) {
    return;
  }
  const auto size = static_cast<size_t>(bytes);
  const auto offset = static_cast<size_t>(static_cast<char*>(shared) - shared_memory());
  REPRISE_ASSERT(bytes > 0 && offset + size <= current_grid->launch().shared_bytes,
                 "a bulk copy of {} bytes to {} of {} bytes of shared memory",
                 bytes,
                 offset,
                 current_grid->launch().shared_bytes);
  current_grid->unfinished().require_finished(static_cast<const std::byte*>(from), size);
  current_grid->current().block->copies.start(shared, from, size, shared_address(&barrier));
}

void load_fragments(uint32_t (&words)[4], uint32_t row) {
  const LaneWords& all = exchange_rows(row);
  const size_t lane = my_lane();
  for (size_t i = 0; i < 4; ++i) words[i] = all.of[i * 8 + lane / 4][lane % 4];
}

void load_fragments_transposed(uint32_t (&words)[4], uint32_t row) {
  const LaneWords& all = exchange_rows(row);
  const size_t lane = my_lane();
  for (size_t i = 0; i < 4; ++i) {
    const auto element = [&](size_t matrix_row) {
      return (all.of[i * 8 + matrix_row][lane / 8] >> (lane / 4 % 2 * 16)) & 0xffffU;
    };
    words[i] = element(lane % 4 * 2) | (element(lane % 4 * 2 + 1) << 16);
  }
}

HostFragments& next_fragments() {
  Fiber& fiber = current_grid->current();
  return fiber.warp->fragments[static_cast<size_t>(fiber.uses++ % 2)];
}

void multiply_codes(int32_t (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  const LaneWords& all = exchange(std::array{a[0], a[1], a[2], a[3], b[0], b[1]});
  const size_t lane = my_lane();
  for (size_t i = 0; i < 4; ++i) {
    const size_t row = lane / 4 * 4;
    const size_t column = (lane % 4 * 2 + i % 2) * 4;
    for (size_t k = 0; k < 4; ++k) {
      const auto& left = all.of[row + k];
      const auto& right = all.of[column + k];
      c[i] +=
          products_of_bytes(left[i / 2], right[4]) + products_of_bytes(left[2 + i / 2], right[5]);
    }
  }
}

}  // namespace reprise::kernels::cuda
