import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;

/** Reports the run's progress to the driver: a line on standard output at the first, the middle and the last record. */
final class Marks {
  private final long target;
  private final AtomicLong counted = new AtomicLong();
  private final AtomicBoolean begun = new AtomicBoolean();
  private final AtomicBoolean halfway = new AtomicBoolean();
  private final CountDownLatch finished = new CountDownLatch(1);

  Marks(long target) {
    this.target = target;
  }

  static void print(String name, long count) {
    System.out.println("@@ " + name + " " + count);
    System.out.flush();
  }

  void begin() {
    if (!begun.get() && begun.compareAndSet(false, true)) {
      print("FIRST", 0);
    }
  }

  void count(long more) {
    begin();
    long now = counted.addAndGet(more);
    if (now >= target / 2 && !halfway.get() && halfway.compareAndSet(false, true)) {
      print("HALF", now);
    }
    if (now >= target && now - more < target) {
      print("LAST", now);
      finished.countDown();
    }
  }

  void awaitLast() throws InterruptedException {
    finished.await();
  }
}
