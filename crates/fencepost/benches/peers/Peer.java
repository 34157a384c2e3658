import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.IntConsumer;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryNTimes;

/**
 * Curator's own lock as a contender of the benchmark of stores. Argument: addresses of ZooKeeper.
 *
 * Reads one request per line and answers each with one line; player.rs of the benchmark says what they mean.
 */
public class Peer {
    static CuratorFramework client;
    static final Map<Integer, InterProcessMutex> locks = new ConcurrentHashMap<>();

    interface Work {
        void run() throws Exception;
    }

    static void under(int number, Work work) {
        InterProcessMutex lock = locks.computeIfAbsent(number, key -> new InterProcessMutex(client, "/curator/" + key));
        try {
            lock.acquire();
            try {
                work.run();
            } finally {
                lock.release();
            }
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    static List<Thread> allAtOnce(int count, IntConsumer work) {
        List<Thread> threads = new ArrayList<>();
        for (int seat = 0; seat < count; seat++) {
            int own = seat;
            Thread thread = new Thread(() -> work.accept(own));
            thread.start();
            threads.add(thread);
        }
        return threads;
    }

    static void join(List<Thread> threads) throws InterruptedException {
        for (Thread thread : threads) {
            thread.join();
        }
    }

    static void pairs(int count, int name) {
        for (int pair = 0; pair < count; pair++) {
            under(name, () -> {});
        }
    }

    static String answer(String request, int[] numbers) throws Exception {
        long started = System.nanoTime();
        switch (request) {
            case "pairs":
                pairs(numbers[0], 1000);
                return Long.toString(System.nanoTime() - started);
            case "many":
                join(allAtOnce(numbers[0], seat -> pairs(numbers[1], 1000 + seat)));
                return Long.toString(System.nanoTime() - started);
            case "turns":
                List<String> seen = Collections.synchronizedList(new ArrayList<>());
                long end = started + numbers[1] * 1_000_000L;
                join(allAtOnce(numbers[0], seat -> {
                    while (System.nanoTime() < end) {
                        under(1, () -> seen.add(System.nanoTime() + " " + seat));
                    }
                }));
                return String.join(" ", seen);
            case "queue":
                List<String> served = Collections.synchronizedList(new ArrayList<>());
                List<Thread> threads = new ArrayList<>();
                long[] begun = new long[1];
                under(2, () -> {
                    threads.addAll(allAtOnce(numbers[0], seat -> under(2, () -> {
                        served.add(Integer.toString(seat));
                        Thread.sleep(1);
                    })));
                    Thread.sleep(300);
                    begun[0] = System.nanoTime();
                });
                join(threads);
                return (System.nanoTime() - begun[0]) + " " + String.join(" ", served);
            default:
                throw new IllegalArgumentException(request);
        }
    }

    public static void main(String[] arguments) throws Exception {
        client = CuratorFrameworkFactory.newClient(arguments[0], new RetryNTimes(10, 100));
        client.start();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.trim().split(" ");
            int[] numbers = new int[words.length - 1];
            for (int at = 0; at < numbers.length; at++) {
                numbers[at] = Integer.parseInt(words[at + 1]);
            }
            System.out.println(answer(words[0], numbers));
            System.out.flush();
        }
        client.close();
    }
}
