#include "reprise/api/loading/product_table_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <vector>

#include "reprise/base/error.h"
#include "tests/support/compile/compile_cache_fixture.h"

namespace reprise::api {
namespace {

using compile::names_in;
using compile::read_bytes;
using compile::start_child;
using compile::TemporaryFolder;
using compile::wait_for;
using compile::write_bytes;
using kernels::ProductShape;
using kernels::ProductTable;
using Known = ProductTableFile::Known;

ProductShape shape(int64_t columns) { return {.columns = columns, .depth = 64, .x_stride = 64}; }

/// A choice for one product with some numbers of rows. `tile` marks who made it.
ProductTable table_of(int64_t columns, int32_t tile = 8) {
  ProductTable table;
  for (const int64_t rows : {1, 2, 16}) {
    table.set(shape(columns),
              rows,
              {.choice = {.kernel = kernels::ProductChoice::Kernel::own, .tile_columns = tile},
               .microseconds = 1.5,
               .built_in_microseconds = 2});
  }
  return table;
}

class ProductTableFileTest : public testing::Test {
 protected:
  [[nodiscard]] ProductTableFile file(std::string identity = "card; driver",
                                      StepHook hook = {}) const {
    return ProductTableFile(
        {.root = root_, .identity = std::move(identity), .step_hook = std::move(hook)});
  }

  TemporaryFolder folder_;
  std::filesystem::path root_ = folder_.path() / "cache" / "tuned_products";
};

TEST_F(ProductTableFileTest, a_later_start_reads_what_was_added_and_adds_to_it) {
  EXPECT_EQ(file().read().reason, "no file");
  EXPECT_FALSE(file().read().is_broken);
  const ProductTableFile::Saved saved = file().add(table_of(8), Known::kept);
  EXPECT_EQ(saved.reason, "");
  EXPECT_EQ(saved.table, table_of(8));
  EXPECT_EQ(file().read().table, table_of(8));
  EXPECT_EQ(file().add(table_of(16), Known::kept).table.num_measured(), 6U);
  EXPECT_EQ(file().read().table.num_measured(), 6U);
}

TEST_F(ProductTableFileTest, a_choice_that_was_made_stays_unless_it_is_to_be_replaced) {
  (void)file().add(table_of(8, 8), Known::kept);
  EXPECT_EQ(file().add(table_of(8, 16), Known::kept).table, table_of(8, 8));
  EXPECT_EQ(file().read().table, table_of(8, 8));
  (void)file().add(table_of(24), Known::kept);
  const ProductTable replaced = file().add(table_of(8, 16), Known::replaced).table;
  EXPECT_EQ(replaced.num_measured(), 6U);
  EXPECT_EQ(replaced.find(shape(8), 2)->tile_columns, 16);
  EXPECT_EQ(file().read().table, replaced);
}

TEST_F(ProductTableFileTest, another_card_driver_or_library_has_another_file) {
  (void)file("card; driver 1").add(table_of(8), Known::kept);
  EXPECT_EQ(file("card; driver 2").read().reason, "no file");
  // Even under the same name the table is refused.
  const std::string bytes = read_bytes(file("card; driver 1").path());
  (void)file("card; driver 2").add(table_of(16), Known::kept);
  write_bytes(file("card; driver 2").path(), bytes);
  const ProductTableFile::Read read = file("card; driver 2").read();
  EXPECT_TRUE(read.is_broken);
  EXPECT_TRUE(read.table.is_empty());
  EXPECT_THAT(read.reason, testing::HasSubstr("another device: card; driver 1"));
}

TEST_F(ProductTableFileTest, a_damaged_file_is_refused_with_a_message_and_replaced) {
  (void)file().add(table_of(8), Known::kept);
  const std::string good = read_bytes(file().path());
  const auto expect_refused = [&](const std::string& bytes, const std::string& what) {
    EXPECT_THROW((void)parse_product_file(bytes, "card; driver", "here"), InvalidArgument) << what;
  };
  for (size_t length = 0; length < good.size(); ++length) {
    expect_refused(good.substr(0, length), "length " + std::to_string(length));
  }
  for (size_t at = 0; at < good.size(); ++at) {
    for (const int bit : {0, 3, 7}) {
      std::string bytes = good;
      bytes[at] = static_cast<char>(bytes[at] ^ 1 << bit);
      expect_refused(bytes, "byte " + std::to_string(at));
    }
  }
  expect_refused(good + "\n", "longer");
  std::filesystem::resize_file(file().path(), good.size() / 2);
  const ProductTableFile::Read read = file().read();
  EXPECT_TRUE(read.is_broken);
  EXPECT_TRUE(read.table.is_empty());
  EXPECT_THAT(read.reason, testing::HasSubstr(file().path().string()));
  EXPECT_EQ(file().add(table_of(16), Known::kept).table, table_of(16));
  EXPECT_EQ(file().read().table, table_of(16));
}

TEST_F(ProductTableFileTest, a_folder_that_others_can_write_to_is_not_trusted) {
  (void)file().add(table_of(8), Known::kept);
  ASSERT_EQ(::chmod(root_.c_str(), 0777), 0);
  EXPECT_TRUE(file().read().is_broken);
  EXPECT_TRUE(file().read().table.is_empty());
  const ProductTableFile::Saved saved = file().add(table_of(16), Known::kept);
  EXPECT_NE(saved.reason, "");
  EXPECT_EQ(saved.table, table_of(16)) << "this start uses its choices all the same";
}

TEST_F(ProductTableFileTest, a_save_that_fails_at_any_step_leaves_the_old_table) {
  (void)file().add(table_of(8), Known::kept);
  int num_steps = 0;
  const StepHook count = [&](std::string_view) {
    ++num_steps;
    return 0;
  };
  (void)file("card; driver", count).add(table_of(16), Known::kept);
  ASSERT_GT(num_steps, 6);
  (void)file().add(table_of(8), Known::kept);
  const ProductTable before = file().read().table;
  for (int failing = 1; failing <= num_steps; ++failing) {
    int step = 0;
    const StepHook fail = [&](std::string_view) { return ++step == failing ? EIO : 0; };
    const ProductTableFile::Saved saved = file("card; driver", fail).add(table_of(32), Known::kept);
    if (saved.reason.empty()) {
      // The step was allowed to fail: nothing to remove, or the old table was unreadable.
      EXPECT_TRUE(file().read().table.has(shape(32), 1)) << failing;
      std::filesystem::remove(file().path());
      (void)file().add(before, Known::kept);
      continue;
    }
    EXPECT_TRUE(saved.table.has(shape(32), 1)) << failing;
    EXPECT_EQ(file().read().table, before) << failing;
    EXPECT_EQ(names_in(root_).size(), 2U) << failing << ": the table and the lock";
  }
}

TEST_F(ProductTableFileTest, processes_that_save_at_once_lose_nothing_and_agree) {
  constexpr int kProcesses = 8;
  std::vector<pid_t> children;
  for (int i = 0; i < kProcesses; ++i) {
    children.push_back(start_child([&, i] {
      for (int64_t round = 0; round < 10; ++round) {
        // Columns of its own, and some that all processes measure, each with another result.
        const ProductTable shared = table_of(1000 + round, i % 2 == 0 ? 8 : 16);
        ProductTable measured = table_of(8 * (int64_t{10} * i + round + 1));
        measured.merge(shared);
        const ProductTableFile::Saved saved = file().add(measured, Known::kept);
        EXPECT_EQ(saved.reason, "");
        // What this process uses is what every later start reads.
        const ProductTable now = file().read().table;
        for (const auto& [product, rows] : saved.table.products()) {
          EXPECT_EQ(now.products().at(product), rows);
        }
      }
    }));
  }
  for (const pid_t child : children) EXPECT_EQ(wait_for(child), 0);
  EXPECT_EQ(file().read().table.products().size(), size_t{kProcesses * 10 + 10});
}

}  // namespace
}  // namespace reprise::api
