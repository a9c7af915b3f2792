#include "reprise/server/metrics/cudagraph_log.h"

#include <gtest/gtest.h>

#include <vector>

namespace reprise::server {
namespace {

using cudagraph::CudagraphMode;
using cudagraph::CudagraphRuntimeMode;
using Row = cudagraph::DispatchLedger::Row;

const std::vector<int32_t> kSizes = {1, 2, 4, 8};

TEST(CudagraphLog, writes_the_table_that_vllm_writes) {
  CudagraphLog log(CudagraphMode::FULL_AND_PIECEWISE, kSizes);
  const std::vector<Row> rows = {{3, 4, CudagraphRuntimeMode::FULL, 7},
                                 {90, 90, CudagraphRuntimeMode::NONE, 12}};
  EXPECT_EQ(log.next_table(rows),
            "**CUDAGraph Config Settings:**\n\n"
            "- Mode: FULL_AND_PIECEWISE\n"
            "- Capture sizes: [1, 2, 4, 8]\n\n"
            "**CUDAGraph Stats:**\n\n"
            "| Unpadded Tokens | Padded Tokens | Num Paddings | Runtime Mode | Count |\n"
            "|-----------------|---------------|--------------|--------------|-------|\n"
            "| 90              | 90            | 0            | NONE         | 12    |\n"
            "| 3               | 4             | 1            | FULL         | 7     |\n");
}

TEST(CudagraphLog, counts_from_the_table_before_and_says_nothing_without_steps) {
  CudagraphLog log(CudagraphMode::FULL, kSizes);
  std::vector<Row> rows;
  EXPECT_EQ(log.next_table(rows), std::nullopt);
  rows = {{1, 1, CudagraphRuntimeMode::FULL, 10}, {2, 2, CudagraphRuntimeMode::FULL, 5}};
  EXPECT_TRUE(log.next_table(rows).has_value());
  EXPECT_EQ(log.next_table(rows), std::nullopt);
  rows = {{1, 1, CudagraphRuntimeMode::FULL, 13},
          {2, 2, CudagraphRuntimeMode::FULL, 5},
          {1, 1, CudagraphRuntimeMode::NONE, 1}};
  const std::optional<std::string> table = log.next_table(rows);
  ASSERT_TRUE(table.has_value());
  EXPECT_NE(table->find("| FULL         | 3     |"), std::string::npos) << *table;
  EXPECT_NE(table->find("| NONE         | 1     |"), std::string::npos) << *table;
  EXPECT_EQ(table->find("| 2  "), std::string::npos) << *table;
}

}  // namespace
}  // namespace reprise::server
