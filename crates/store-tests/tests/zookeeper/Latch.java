import java.io.BufferedReader;
import java.io.InputStreamReader;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.retry.RetryNTimes;

/** Curator's own election. Arguments: address, path of the election, value. Says when it leads, answers who leads, and resigns on request. */
public class Latch {
    public static void main(String[] arguments) throws Exception {
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in));
        try (CuratorFramework client = CuratorFrameworkFactory.newClient(arguments[0], new RetryNTimes(10, 100))) {
            client.start();
            LeaderLatch latch = new LeaderLatch(client, arguments[1], arguments[2]);
            latch.start();
            Thread waiting = new Thread(() -> {
                try {
                    latch.await();
                    System.out.println("leading");
                } catch (Exception stopped) {
                    System.out.println("stopped");
                }
            });
            waiting.start();
            for (String request = requests.readLine(); request != null; request = requests.readLine()) {
                if (request.contains("resign")) {
                    break;
                }
                System.out.println("leader " + latch.getLeader().getId());
            }
            latch.close();
            waiting.join();
        }
    }
}
