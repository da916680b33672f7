// Row engine: values, neighbours, damage, and random operations of several threads that are compared with an oracle.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "check.h"
#include "core/private_memory.h"
#include "disk/row_engine.h"
#include "row_batches.h"

using namespace ascpipe;
using namespace row_batches;

namespace {

constexpr std::int64_t kSizes[] = {1, 4, 100, 128, 512, 2040, 2041, 4088, 4089, 9000, kMostRowBytes};

bool Says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Bytes of a block that the test reads and writes without the engine.
class RawBlock {
 public:
  RawBlock(RowFile* file, std::int64_t block) : file_(file), block_(block) {
    CHECK_EQ(file_->Read(block_, 1, bytes.get()), 0);
  }
  void Put() {
    CHECK_EQ(file_->Write(block_, 1, bytes.get()), 0);
    CHECK_EQ(file_->Sync(), 0);
  }
  const PrivateArray<std::uint8_t> bytes{kMostWriteBytes};

 private:
  RowFile* const file_;
  const std::int64_t block_;
};

}  // namespace

TEST(RowsOfAllSizesAreReadAsTheyWereWritten) {
  for (const bool buffered : {false, true}) {
    for (const std::int64_t row_bytes : kSizes) {
      const Directory directory;
      RowEngine engine(4);
      const std::int64_t n = row_bytes > 100000 ? 7 : 300;
      const int file = Open(&engine, directory.path(), row_bytes, buffered, 2 * n);
      Rows rows(row_bytes);
      for (std::int64_t i = 0; i < n; ++i) rows.Add(2 * n - 1 - i * 2, i * 1000003 - 5, static_cast<std::uint32_t>(i));
      Write(&engine, file, &rows);
      Read(&engine, file, &rows);
      const DiskFigures figures = Figures(engine, file);
      CHECK_EQ(figures.rows_read, n);
      CHECK_EQ(figures.rows_written, n);
      CHECK_EQ(figures.rows_failed + figures.rows_damaged + figures.damaged_neighbours, 0);
      CHECK_EQ(figures.queued + figures.under_way, 0);
    }
  }
}

TEST(AnEmptyBatchIsOver) {
  const Directory directory;
  RowEngine engine(1);
  const int file = Open(&engine, directory.path(), 128, false, 1);
  Rows none(128);
  Write(&engine, file, &none);
  Read(&engine, file, &none);
  CHECK(engine.Wait(777, std::chrono::milliseconds(0)));  // an unknown number
}

TEST(EachBlockIsReadOnceForAllRowsOfABatch) {
  const Directory directory;
  RowEngine engine(4);
  const int file = Open(&engine, directory.path(), 128, false, 3000);
  Rows rows(128);
  for (std::int64_t slot = 0; slot < 3000; ++slot) rows.Add(slot, slot, 1);
  Write(&engine, file, &rows);
  CHECK_EQ(Figures(engine, file).reads, 0);  // whole blocks are written without a read
  Rows some(128);
  for (std::int64_t slot = 2999; slot >= 0; slot -= 7) some.Add(slot, slot, 1);
  some.Add(0, 0, 1);
  some.Add(0, 0, 1);  // the same row twice
  Read(&engine, file, &some);
  CHECK_EQ(Figures(engine, file).reads, 100);
  CHECK_EQ(Figures(engine, file).read_bytes, 100 * 4096);
}

TEST(AdjacentWholeBlocksAreWrittenTogether) {
  const Directory directory;
  RowEngine engine(2);
  const int file = Open(&engine, directory.path(), 128, false, 30 * 200);
  Rows rows(128);
  for (std::int64_t slot = 0; slot < 30 * 150; ++slot) rows.Add(slot, slot, 1);
  for (std::int64_t block = 160; block < 170; ++block) rows.Add(block * 30, block, 1, 1);  // alone in their blocks
  Write(&engine, file, &rows);
  const DiskFigures figures = Figures(engine, file);
  CHECK_EQ(figures.reads, 0);
  CHECK_EQ(figures.writes, 4);  // 150 blocks in writes of at most 64 blocks, and one write of 10 blocks
  CHECK_EQ(figures.written_bytes, 160 * 4096);
  Read(&engine, file, &rows);
}

TEST(AWriteLeavesAllOtherBytesOfItsBlocksAsTheyAre) {
  for (const bool buffered : {false, true}) {
    for (const std::int64_t row_bytes : {1, 100, 128, 512, 1000}) {
      const Directory directory;
      RowEngine engine(4);
      const RowFormat format(row_bytes);
      const std::int64_t per_block = format.slots_per_block(), n = 3 * per_block;
      const int file = Open(&engine, directory.path(), row_bytes, buffered, n);
      Rows before(row_bytes), changed(row_bytes), kept(row_bytes);
      for (std::int64_t slot = 0; slot < n; ++slot) {
        before.Add(slot, slot + 7, 1);
        if (slot % 3 == 1) {
          changed.Add(slot, slot + 50000, 2);
        } else {
          kept.Add(slot, slot + 7, 1);
        }
      }
      Write(&engine, file, &before);
      // A torn slot, and bytes after the last slot.
      const std::int64_t torn = per_block % 3 == 1 ? per_block + 1 : per_block;
      RawBlock raw(engine.file(file), 1);
      raw.bytes.get()[format.OffsetOf(torn)] ^= 1;
      raw.bytes.get()[4095] = 0xA5;
      raw.Put();
      Write(&engine, file, &changed);
      CHECK_EQ(Figures(engine, file).damaged_neighbours, 1);
      Read(&engine, file, &changed);
      Run(&engine, file, BatchKind::kRead, &kept);
      for (std::size_t i = 0; i < kept.results.size(); ++i) {
        const bool is_torn = kept.slots[i] == torn;
        CHECK_EQ(kept.results[i], is_torn ? kTorn : kWhole);
        CHECK(is_torn ? kept.IsUntouched(i) : kept.Has(i));
      }
      CHECK_EQ(static_cast<int>(RawBlock(engine.file(file), 1).bytes.get()[4095]), 0xA5);
    }
  }
}

TEST(ARowThatIsAloneInItsBlockClearsTheOthers) {
  const Directory directory;
  RowEngine engine(2);
  const int file = Open(&engine, directory.path(), 128, false, 60);
  Rows full(128), alone(128);
  for (std::int64_t slot = 0; slot < 60; ++slot) full.Add(slot, slot, 1);
  Write(&engine, file, &full);
  alone.Add(30, 4, 2, 1);
  alone.Add(33, 5, 2, 1);
  Write(&engine, file, &alone);
  Read(&engine, file, &alone);
  Run(&engine, file, BatchKind::kRead, &full);
  for (std::int64_t slot = 0; slot < 60; ++slot) {
    const int wanted = slot < 30 ? kWhole : slot == 30 || slot == 33 ? kForeign : kNeverWritten;
    CHECK_EQ(full.results[static_cast<std::size_t>(slot)], wanted);
  }
}

TEST(WhatASlotHoldsInPlaceOfTheWantedRowIsToldAndNothingIsCopied) {
  for (const std::int64_t row_bytes : {128, 4088, 9000}) {
    const Directory directory;
    RowEngine engine(2);
    const int file = Open(&engine, directory.path(), row_bytes, false, 100);
    Rows rows(row_bytes);
    for (std::int64_t slot = 0; slot < 50; ++slot) rows.Add(slot, slot + 7, 3);
    Write(&engine, file, &rows);
    const RowFormat format(row_bytes);
    RawBlock raw(engine.file(file), format.BlockOf(40));
    raw.bytes.get()[format.OffsetOf(40) + 1] ^= 0x80;
    raw.Put();
    Rows asked(row_bytes);
    asked.Add(10, 17, 3);
    asked.Add(11, 17, 3);  // the slot of another key
    asked.Add(12, 19, 4);  // a lost write
    asked.Add(40, 47, 3);
    asked.Add(99, 9, 1);
    Run(&engine, file, BatchKind::kRead, &asked);
    CHECK(asked.results == (std::vector<std::int32_t>{kWhole, kForeign, kStale, kTorn, kNeverWritten}));
    CHECK(asked.Has(0));
    for (std::size_t i = 1; i < 5; ++i) CHECK(asked.IsUntouched(i));
    CHECK_EQ(Figures(engine, file).rows_damaged, 4);
  }
}

TEST(ABatchWithAWrongRequestIsRefusedAsAWhole) {
  const Directory directory;
  RowEngine engine(1);
  const int file = Open(&engine, directory.path(), 128, false, 30);
  const auto refusal = [&](int number, BatchKind kind, std::vector<std::int64_t> slots) {
    Rows rows(128);
    for (const std::int64_t slot : slots) rows.Add(slot, 100 + slot, 1);
    std::int64_t job = -5;
    const CoreStatus status = engine.Submit(number, kind, rows.Batch(true), &job);
    CHECK_EQ(static_cast<int>(status.code()), static_cast<int>(Code::kInvalidArgument));
    CHECK_EQ(job, -5);
    return status.text();
  };
  const std::int64_t slots = engine.file(file)->slots();
  CHECK(Says(refusal(file, BatchKind::kRead, {1, -1}), "disk slot -1 of key 99 "));
  CHECK(Says(refusal(file, BatchKind::kWrite, {1, slots}), Text("disk slot ", slots)));
  CHECK(Says(refusal(file, BatchKind::kWrite, {4, 3, 4}), "disk slot 4 is written for key 104 and key 104"));
  CHECK(Says(refusal(file + 1, BatchKind::kWrite, {1}), "there is no row file 1"));
  CHECK(Says(refusal(-1, BatchKind::kWrite, {1}), "there is no row file -1"));
  CHECK_EQ(Figures(engine, file).writes, 0);
}

TEST(FilesOfOneDiskShareItsThreadsAndOthersHaveTheirOwn) {
  const Directory disk, memory("/dev/shm");
  RowEngine engine(3);
  const int one = Open(&engine, disk.path(), 128, false, 300);
  const int other = Open(&engine, disk.path(), 512, false, 300);
  const int third = Open(&engine, memory.path(), 128, false, 300);
  for (const int file : {one, other, third}) {
    Rows rows(file == other ? 512 : 128);
    for (std::int64_t slot = 0; slot < 300; slot += 31) rows.Add(slot, slot + file, 1);
    Write(&engine, file, &rows);
    Read(&engine, file, &rows);
  }
  CHECK_EQ(Figures(engine, one).rows_read, 20);
  CHECK_EQ(Figures(engine, third).rows_read, 10);
  std::unique_ptr<RowFile> file;
  CHECK(RowFile::Create(disk.path(), 128, false, &file).ok());
  int number = -1;
  CHECK(Says(RowEngine(0).Add(std::move(file), &number).text(), "0 threads per disk: 1 to 256"));
}

TEST(AfterAStopNothingIsTakenAndAllBatchesAreOver) {
  const Directory directory;
  RowEngine engine(1);
  const int file = Open(&engine, directory.path(), 4000, true, 4000);
  std::vector<std::unique_ptr<Rows>> batches;
  std::vector<std::int64_t> jobs;
  for (std::uint32_t i = 0; i < 4; ++i) {
    batches.emplace_back(new Rows(4000));
    for (std::int64_t at = 0; at < 1000; ++at) batches.back()->Add(i * 1000 + (at * 2) % 1000 + at / 500, at, 1);
    jobs.push_back(0);
    CHECK(engine.Submit(file, BatchKind::kWrite, batches.back()->Batch(true), &jobs.back()).ok());
  }
  engine.Cancel(jobs[3]);
  CHECK(engine.Stop(kLong).ok());
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    CHECK(engine.Wait(jobs[i], std::chrono::milliseconds(0)));
    for (const std::int32_t result : batches[i]->results) CHECK(result == 0 || result == ECANCELED);
  }
  CHECK(engine.Stop(kLong).ok());
  Rows late(4000);
  late.Add(0, 0, 1);
  std::int64_t job = 0;
  const CoreStatus status = engine.Submit(file, BatchKind::kRead, late.Batch(false), &job);
  CHECK_EQ(static_cast<int>(status.code()), static_cast<int>(Code::kCancelled));
  CHECK_EQ(Figures(engine, file).queued, 0);
}

namespace {

struct Known {
  std::int64_t key;
  std::uint32_t generation;
};

// Reads and writes the slots number, number + of, ...  Each block contains slots of every thread.
void ReadAndWriteAtRandom(RowEngine* engine, int file, std::int64_t row_bytes, int number, int of, std::int64_t slots,
                          int rounds) {
  std::mt19937_64 random(static_cast<std::uint64_t>(number) * 1000 + static_cast<std::uint64_t>(row_bytes));
  std::vector<Known> oracle(static_cast<std::size_t>(slots), Known{0, 0});
  for (int round = 0; round < rounds; ++round) {
    Rows reads(row_bytes), writes(row_bytes);
    for (std::int64_t slot = number; slot < slots; slot += of) {
      Known& known = oracle[static_cast<std::size_t>(slot)];
      const auto dice = random() % 4;
      if (dice == 0) reads.Add(slot, known.key, known.generation);
      if (dice == 1) {
        known = {static_cast<std::int64_t>(random()), static_cast<std::uint32_t>(round + 1)};
        writes.Add(slot, known.key, known.generation);
      }
    }
    std::int64_t read = 0, written = 0;  // the two batches have different slots in the same blocks
    CHECK(engine->Submit(file, BatchKind::kWrite, writes.Batch(true), &written).ok());
    CHECK(engine->Submit(file, BatchKind::kRead, reads.Batch(false), &read).ok());
    CHECK(engine->Wait(read, kLong));
    CHECK(engine->Wait(written, kLong));
    for (const std::int32_t result : writes.results) CHECK_EQ(result, 0);
    for (std::size_t i = 0; i < reads.results.size(); ++i) {
      const bool is_written = reads.generations[i] != 0;
      CHECK_EQ(reads.results[i], is_written ? kWhole : kNeverWritten);
      CHECK(is_written ? reads.Has(i) : reads.IsUntouched(i));
    }
  }
}

}  // namespace

DiskFigures FiguresOfThreeThreads(std::int64_t row_bytes, bool buffered) {
  const Directory directory;
  RowEngine engine(8);
  const std::int64_t slots = 6 * RowFormat(row_bytes).slots_per_block();
  const int file = Open(&engine, directory.path(), row_bytes, buffered, slots);
  std::vector<std::thread> threads;
  for (int number = 0; number < 3; ++number) {
    threads.emplace_back(ReadAndWriteAtRandom, &engine, file, row_bytes, number, 3, slots, buffered ? 20 : 60);
  }
  for (std::thread& thread : threads) thread.join();
  return Figures(engine, file);
}

TEST(ThreadsThatReadAndWriteTheSameBlocksFindWhatTheyWrote) {
  for (const bool buffered : {false, true}) {
    for (const std::int64_t row_bytes : {100, 1000, 5000}) {
      bool met = row_bytes > 1000;  // true if several threads wanted a block at the same time, which is not certain
      for (int run = 0; run == 0 || (!met && run < 50); ++run) {
        const DiskFigures figures = FiguresOfThreeThreads(row_bytes, buffered);
        CHECK_EQ(figures.rows_failed + figures.damaged_neighbours, 0);
        CHECK_EQ(figures.queued + figures.under_way, 0);
        met = met || figures.delayed > 0;
      }
      CHECK(met);
    }
  }
}
