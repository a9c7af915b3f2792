#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "reprise/runner/input_batch.h"
#include "tests/support/fake_cuda/cuda_machine_fixture.h"

// Tests of the uploads of a step to a GPU: the copies, their bytes, and that the device then has
// the whole batch.
namespace reprise::runner {
namespace {

using kernels::cuda::CudaExecutor;
using kernels::cuda::CudaMachine;

// 131,072 positions: the block tables of all requests take 8 MiB.
constexpr BatchLimits kLongContexts{
    .max_num_tokens = 8192, .max_num_reqs = 256, .max_blocks_per_req = 8192, .block_size = 16};

/// Requests of one token each, whose blocks grow and shrink as those of real requests do.
class DecodeBatch {
 public:
  DecodeBatch(size_t num_reqs, size_t num_blocks) : blocks_(num_reqs) {
    for (std::vector<kv_cache::BlockId>& blocks : blocks_) grow(blocks, num_blocks);
  }
  void grow(size_t request, size_t count) { grow(blocks_.at(request), count); }
  void replace(size_t request, size_t num_blocks) {
    blocks_.at(request).clear();
    grow(blocks_.at(request), num_blocks);
  }
  void remove(size_t request) { blocks_.erase(blocks_.begin() + static_cast<ptrdiff_t>(request)); }
  [[nodiscard]] size_t size() const { return blocks_.size(); }
  [[nodiscard]] const std::vector<kv_cache::BlockId>& blocks(size_t request) const {
    return blocks_.at(request);
  }
  void stage(InputBatch& batch, device::Stream& stream) const {
    std::vector<scheduler::StepEntry> requests;
    for (const auto& blocks : blocks_) {
      requests.push_back({.token_ids = token_,
                          .num_computed_tokens = static_cast<int32_t>(blocks.size()) * 16 - 1,
                          .block_ids = blocks,
                          .samples = true});
    }
    const auto count = static_cast<int32_t>(requests.size());
    batch.stage(
        requests, {.num_tokens = count, .num_reqs = count, .num_logits_rows = count}, stream);
  }

 private:
  void grow(std::vector<kv_cache::BlockId>& blocks, size_t count) {
    for (size_t i = 0; i < count; ++i) blocks.push_back(kv_cache::BlockId{next_++});
  }

  int32_t next_ = 1;
  std::vector<int32_t> token_ = {7};
  std::vector<std::vector<kv_cache::BlockId>> blocks_;
};

class CudaInputBatch : public testing::Test {
 protected:
  struct Uploaded {
    uint64_t bytes;
    uint64_t copies;
  };
  Uploaded stage(const DecodeBatch& requests) {
    device::cuda::FakeDriver& driver = machine_.driver();
    const Uploaded before{driver.bytes_from_host(), driver.num_calls("cuMemcpyHtoDAsync")};
    requests.stage(batch_, *stream_);
    return {driver.bytes_from_host() - before.bytes,
            driver.num_calls("cuMemcpyHtoDAsync") - before.copies};
  }
  void expect_table(const DecodeBatch& requests) {
    const Tensor table = batch_.attention_metadata().block_table;
    std::vector<int32_t> row(static_cast<size_t>(kLongContexts.max_blocks_per_req));
    for (size_t i = 0; i < requests.size(); ++i) {
      stream_->copy_to_host(
          row.data(), table.data_as<int32_t>() + i * row.size(), row.size() * sizeof(int32_t));
      std::vector<int32_t> want(row.size(), 0);
      std::ranges::transform(requests.blocks(i), want.begin(), [](kv_cache::BlockId id) {
        return static_cast<int32_t>(id);
      });
      ASSERT_TRUE(row == want) << "request " << i;
    }
  }

  CudaMachine machine_;
  std::unique_ptr<device::Stream> stream_ = machine_.device().create_stream();
  std::unique_ptr<device::MemoryPool> pool_ = machine_.device().create_pool();
  CudaExecutor executor_{*stream_, *pool_, {.num_multiprocessors = 4}};
  InputBatch batch_{kLongContexts, machine_.device(), executor_};
};

TEST_F(CudaInputBatch, a_decoding_step_uploads_the_changed_entries_of_block_tables) {
  DecodeBatch requests(256, 500);
  const Uploaded first = stage(requests);
  EXPECT_GT(first.bytes, 256U * 500 * 4);
  const Uploaded same = stage(requests);
  EXPECT_LE(same.bytes, 8192U) << "seven arrays of 256 numbers";
  EXPECT_EQ(same.copies, 1U);
  // Every sixteenth request gets a block, as in each step of 256 requests.
  for (size_t i = 0; i < 256; i += 16) requests.grow(i, 1);
  const Uploaded grown = stage(requests);
  EXPECT_LE(grown.bytes, 8192U);
  EXPECT_EQ(grown.copies, 17U);
  expect_table(requests);
}

TEST_F(CudaInputBatch, many_changes_are_joined_to_a_few_copies) {
  DecodeBatch requests(256, 40);
  (void)stage(requests);
  for (size_t i = 0; i < 256; i += 2) requests.replace(i, i % 3 == 0 ? 9 : 77);
  EXPECT_LE(stage(requests).copies, 17U);
  expect_table(requests);
}

TEST_F(CudaInputBatch, the_device_has_the_whole_table_after_any_changes) {
  std::mt19937 random(3);
  DecodeBatch requests(40, 3);
  for (int step = 0; step < 30; ++step) {
    if (requests.size() > 3 && random() % 3 == 0) requests.remove(random() % requests.size());
    for (int i = 0; i < 3; ++i) requests.grow(random() % requests.size(), random() % 3);
    if (random() % 4 == 0) requests.replace(random() % requests.size(), 1 + random() % 200);
    (void)stage(requests);
    if (random() % 3 == 0) expect_table(requests);
    if (HasFailure()) return;
  }
}

TEST_F(CudaInputBatch, a_step_that_could_not_be_uploaded_is_made_up_for_by_the_next) {
  DecodeBatch requests(5, 6);
  (void)stage(requests);
  for (uint64_t k = 1; k <= 6; ++k) {
    requests.grow(k % 5, 2);
    machine_.driver().fail_call(k);
    try {
      (void)stage(requests);
    } catch (const device::DeviceError&) {
    }
    machine_.driver().fail_call(0);
    if (k % 2 == 0) requests.grow((k + 2) % 5, 1);
    (void)stage(requests);
    expect_table(requests);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace reprise::runner
