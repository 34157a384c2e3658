import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryNTimes;

/** Curator's own lock: adds to a number that nothing else protects. Arguments: address, path of the lock, turns, file with the number. */
public class Interop {
    public static void main(String[] arguments) throws Exception {
        Path file = Path.of(arguments[3]);
        try (CuratorFramework client = CuratorFrameworkFactory.newClient(arguments[0], new RetryNTimes(10, 100))) {
            client.start();
            InterProcessMutex mutex = new InterProcessMutex(client, arguments[1]);
            for (int turn = 0; turn < Integer.parseInt(arguments[2]); turn++) {
                mutex.acquire();
                try {
                    long number = Long.parseLong(Files.readString(file));
                    Thread.yield();
                    Files.writeString(file, Long.toString(number + 1));
                } finally {
                    mutex.release();
                }
            }
        }
    }
}
