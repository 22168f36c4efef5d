import de.bwaldvogel.mongo.MongoServer;
import de.bwaldvogel.mongo.MongoVersion;
import de.bwaldvogel.mongo.backend.memory.MemoryBackend;
import de.bwaldvogel.mongo.bson.Document;
import de.bwaldvogel.mongo.wire.message.MongoMessage;
import java.util.List;

/** mongo-java-server on 127.0.0.1, on the port given, in memory. It says that it is MongoDB 5.0: drivers refuse older ones. */
public final class MongoServerForTests {
    private enum Version implements MongoVersion {
        MONGODB_5_0;

        @Override
        public List<Integer> getVersionArray() {
            return List.of(5, 0, 0, 0);
        }

        @Override
        public int getWireVersion() {
            return 13;
        }
    }

    /** One statement after the other: what counts or lists a collection while another writes to it fails now and then. */
    private static final class Backend extends MemoryBackend {
        @Override
        public synchronized Document handleMessage(MongoMessage message) {
            return super.handleMessage(message);
        }
    }

    public static void main(String[] arguments) {
        MemoryBackend backend = new Backend();
        backend.version(Version.MONGODB_5_0);
        new MongoServer(backend).bind("127.0.0.1", Integer.parseInt(arguments[0]));
    }
}
