// Rings that allocate memory when batches need it: the amount, the time, and the error if there is no memory.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "check.h"
#include "core/atomics.h"
#include "core/kept_descriptor.h"
#include "core/ring_growth.h"
#include "segments.h"

using namespace ascpipe;

namespace {

constexpr std::int64_t kKib = 1024, kMib = 1024 * kKib;

// Returns the files of a machine without control groups.  `fd` is the meminfo file and receives the available memory.
MemoryPlaces Machine(int fd, std::int64_t available) {
  const std::string path = Text("/proc/self/fd/", fd);
  std::ofstream(path) << "MemAvailable: " << available / 1024 << " kB\n";
  return MemoryPlaces{path, "/none", "/none"};
}

// Memory of one ring whose arena begins with 64 KiB.
struct Growing {
  explicit Growing(std::int64_t most, std::int64_t ample, std::int64_t available = std::int64_t{1} << 40)
      : session_segment(MakeSegment(layout::kSessionBytes, nullptr, nullptr)),
        session(session_segment->base()),
        fd(memfd_create("ascpipe-test", MFD_CLOEXEC)),
        meminfo(memfd_create("ascpipe-meminfo", MFD_CLOEXEC)),
        reserved(4 * layout::kPage + 64 * kMib) {
    CHECK(ftruncate(fd, reserved) == 0 && posix_fallocate(fd, 0, 4 * layout::kPage + 64 * kKib) == 0);
    base = mmap(nullptr, reserved, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    layout::Ring* header = static_cast<layout::Ring*>(base);
    header->version = layout::kVersion;
    header->magic = layout::kMagic;
    header->frame_count = 64;
    header->frames_offset = layout::Align(sizeof(layout::Ring));
    header->tables_offset = header->frames_offset + layout::kMaxFrames * sizeof(layout::Frame);
    header->arena_offset = 4 * layout::kPage;
    header->arena_bytes = 64 * kKib;
    session.session->rings_most = most;
    session.session->rings_ample = ample;
    session.session->is_private = 1;
    CHECK(Segment::Map(fd, reserved, "test ring", &segment).ok());
    CHECK(RingView::Open(*segment, 0, 0, {}, &ring).ok());
    budget = std::make_shared<RingBudget>(most);
    budget->Note(header->arena_bytes);
    arena.reset(new Arena(header->arena_bytes));
    growth.reset(new RingGrowth(ring, session, most > 0 ? fd : -1, reserved, budget, Machine(meminfo, available)));
  }
  ~Growing() {
    growth.reset();
    munmap(base, reserved);
    close(fd);
    close(meminfo);
  }

  RingGrowth::Answer Place(std::int64_t length) {
    std::int64_t position = 0;
    const RingGrowth::Answer answer = growth->Place(arena.get(), length, frames, &position, &why);
    if (answer != RingGrowth::kPlaced) return answer;
    const std::int64_t offset = arena->OffsetOf(position);
    CHECK(offset + length <= ring.header()->arena_bytes);
    arena->Take(position, length);
    ++frames;
    return answer;
  }
  void Free() {
    arena->Free();
    --frames;
  }
  std::int64_t Allocated() const {
    struct stat status;
    fstat(fd, &status);
    return status.st_blocks * 512;
  }

  std::unique_ptr<Segment> session_segment;
  SessionView session;
  const int fd, meminfo;
  const std::int64_t reserved;
  void* base;
  std::unique_ptr<Segment> segment;
  RingView ring;
  std::shared_ptr<RingBudget> budget;
  std::unique_ptr<Arena> arena;
  std::unique_ptr<RingGrowth> growth;
  std::int64_t frames = 0;
  std::string why;
};

bool Says(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return true;
  std::printf("not in it: %s\n%s\n", part.c_str(), text.c_str());
  return false;
}

}  // namespace

TEST(ABatchLargerThanTheRingGetsTheMemoryItNeeds) {
  Growing ring(32 * kMib, 256 * kKib);
  CHECK_EQ(ring.Place(16 * kKib), RingGrowth::kPlaced);
  CHECK_EQ(ring.ring.header()->arena_bytes, 64 * kKib);
  CHECK_EQ(ring.Place(3 * kMib), RingGrowth::kPlaced);
  CHECK(ring.ring.header()->arena_bytes >= 3 * kMib + 16 * kKib);
  CHECK_EQ(ring.ring.header()->arena_bytes, ring.arena->bytes());
  CHECK(ring.Allocated() >= ring.arena->bytes());  // all memory is allocated before it is written
  CHECK_EQ(ring.budget->left(), 32 * kMib - ring.arena->bytes());
}

TEST(SmallBatchesThatWaitGetRoomUpToWhatIsAmple) {
  Growing ring(32 * kMib, 256 * kKib);
  int placed = 0;
  while (ring.Place(16 * kKib) == RingGrowth::kPlaced) ++placed;
  CHECK_EQ(placed, 16);
  CHECK_EQ(ring.arena->bytes(), 256 * kKib);
  ring.Free();
  CHECK_EQ(ring.Place(16 * kKib), RingGrowth::kPlaced);
}

TEST(LargeBatchesGetRoomForEightOfThem) {
  Growing ring(64 * kMib, 256 * kKib);
  int placed = 0;
  while (ring.Place(1 * kMib) == RingGrowth::kPlaced) ++placed;
  CHECK(placed >= 8 && placed <= 9);           // the memory of one growth may have space for one more frame
  for (int round = 0; round < 200; ++round) {  // the size does not change in later laps
    ring.Free();
    ring.Place(1 * kMib);
  }
  CHECK(ring.frames >= 8);
  CHECK(ring.arena->bytes() <= 10 * kMib);
}

TEST(BatchesThatBecomeLargerAndLargerAllGetARoom) {
  Growing ring(48 * kMib, 256 * kKib);
  for (std::int64_t length = 16 * kKib; length < 16 * kMib; length += length / 2 & ~std::int64_t{63}) {
    while (true) {
      const RingGrowth::Answer answer = ring.Place(length);
      CHECK(answer != RingGrowth::kNever);
      if (answer == RingGrowth::kPlaced) break;
      CHECK(ring.frames > 0);
      ring.Free();
    }
  }
}

TEST(ABatchBeyondTheLimitOfAllRingsNamesTheSettingsAndTheNumbers) {
  Growing ring(8 * kMib, 256 * kKib);
  ring.budget->Note(4 * kMib);  // the memory of another ring
  CHECK_EQ(ring.Place(5 * kMib), RingGrowth::kNever);
  CHECK(Says(ring.why, "needs 5242880 bytes in the ring, which has 65536 and may have 4194304"));
  CHECK(Says(ring.why, "all rings together may have 8388608 (4259840 are taken)"));
  CHECK(Says(ring.why, "Nothing was lost"));
  CHECK(Says(ring.why, "ASCPIPE_RING_PERCENT"));
  CHECK(Says(ring.why, "ASCPIPE_RING_BYTES, for each ring, to 5242880 or more"));
  CHECK(Says(ring.why, "ring_bytes in the file that ASCPIPE_CONFIG names"));
  CHECK(!Says(ring.why, "start the daemon again"));
  ring.session.session->is_private = 0;
  CHECK_EQ(ring.Place(5 * kMib), RingGrowth::kNever);
  CHECK(Says(ring.why, "start the daemon again: ascpipe stop, then set the environment variable ASCPIPE_RING_PERCENT"));
  CHECK(Says(ring.why, "ASCPIPE_RING_BYTES, for each ring, to 5242880 or more"));
  CHECK_EQ(ring.Place(4 * kMib - 64), RingGrowth::kPlaced);
}

TEST(AMachineWithoutMemoryRefusesOnlyWhatCannotWait) {
  Growing ring(32 * kMib, 32 * kMib, 16 * kMib + 128 * kKib);  // the margin of 16 MiB stays free
  CHECK_EQ(ring.Place(48 * kKib), RingGrowth::kPlaced);
  CHECK_EQ(ring.Place(512 * kKib), RingGrowth::kWait);  // waits for the previous frame
  CHECK_EQ(ring.arena->bytes(), 64 * kKib);
  ring.Free();
  CHECK_EQ(ring.Place(512 * kKib), RingGrowth::kNever);
  CHECK(Says(ring.why, "needs 524288 bytes in the ring, which has 65536, and the machine has no memory for more: "
                       "the machine has 0.02 GiB available. Nothing was lost"));
  CHECK_EQ(ring.budget->left(), 32 * kMib - 64 * kKib);
  CHECK_EQ(ring.Place(48 * kKib), RingGrowth::kPlaced);
  CHECK_EQ(ring.Place(48 * kKib), RingGrowth::kWait);  // refused memory is not requested again while the frame can wait
}

TEST(WhereThereIsNoMemoryForMoreAtOnceThereMayBeForOneFrame) {
  Growing ring(32 * kMib, 32 * kMib, 16 * kMib + 56 * kKib);
  CHECK_EQ(ring.Place(48 * kKib), RingGrowth::kPlaced);
  CHECK_EQ(ring.Place(64 * kKib), RingGrowth::kPlaced);
  CHECK_EQ(ring.arena->bytes(), 112 * kKib);
}

TEST(ARingOfAFixedSizeStaysAsItIsAndSaysWhoCanChangeIt) {
  Growing ring(0, 0);
  CHECK_EQ(ring.Place(128 * kKib), RingGrowth::kNever);
  CHECK(Says(ring.why, "needs 131072 bytes in the ring, which has 65536. Nothing was lost"));
  CHECK(Says(ring.why, "set the environment variable ASCPIPE_RING_BYTES"));
  ring.session.session->is_private = 0;
  CHECK_EQ(ring.Place(128 * kKib), RingGrowth::kNever);
  CHECK(Says(ring.why, "ascpipe start --ring-bytes, with 131072 or more"));
  CHECK(Says(ring.why, "where neither is given, the ring grows with the batches"));
  CHECK_EQ(ring.Place(64 * kKib), RingGrowth::kPlaced);
  CHECK_EQ(ring.Place(64 * kKib), RingGrowth::kWait);
}

TEST(AGrowthUnderWayEndsWithThePipeline) {
  Growing ring(32 * kMib, 256 * kKib);
  ring.budget->Stop();
  CHECK_EQ(ring.Place(3 * kMib), RingGrowth::kWait);
  CHECK_EQ(ring.arena->bytes(), 64 * kKib);
}

TEST(AForkedChildDoesNotKeepTheDescriptorOfARing) {
  const int fd = memfd_create("ascpipe-test", MFD_CLOEXEC);
  int kept = -1;
  {
    KeptDescriptor descriptor(fd);
    kept = descriptor.get();
    CHECK(kept >= 0 && kept != fd);
    const pid_t child = fork();
    if (child == 0) {
      const bool gone = fcntl(kept, F_GETFD) < 0 && descriptor.get() < 0;
      _exit(gone && fcntl(fd, F_GETFD) >= 0 ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    CHECK_EQ(status, 0);
    CHECK_EQ(fcntl(kept, F_GETFD), FD_CLOEXEC);
  }
  CHECK(fcntl(kept, F_GETFD) < 0);
  close(fd);
}
